// Value: the handle to a tensor. Storage: its memory, or in a graph its name. Node: its history, for autograd only.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/spec.h"
#include "engine/core/attributes.h"

namespace gemel {

struct OpDef;
struct Node;
class ParameterSlab;
struct RowValues;
class Session;
class Value;
using Values = std::vector<Value>;

/// Memory of one kind: on the device, or on the host in double.
class Memory {
 public:
  virtual ~Memory() = default;
};

/// How often a storage was written: by itself, and in ranges of it that are storages of their own.
struct Writes {
  std::uint64_t own = 0, ranges = 0;
};

/// Counted apart from nodes. Its version grows at every write, so (storage, version) names one content; see Trace::version, as a
/// graph counts the writes that it records by itself.
/// Without memory it is symbolic: a name in the graph that is being captured.
struct Storage {
  Storage(Session& in_session, std::int64_t size);
  std::shared_ptr<Session* const> session;  // null behind it once the session has ended
  std::shared_ptr<Memory> memory;           // shared only while an output takes over an input's
  std::shared_ptr<Storage> whole;           // what this one's memory is a range of, where kernels also work on the whole (a slab)
  std::int64_t first = 0;                   // the element of the whole that it begins with
  std::int64_t elements = 0;
  Writes writes;
  std::uint64_t recorded = 0;                // version of the last write in place with a history: handles from before do not know of it
  std::shared_ptr<const std::string> graph;  // what the graph is called in which it is a name; null once computed
  std::shared_ptr<const RowValues> rows;     // in place of memory: the rows of a table whose other rows are zero (engine/gradients/row_gradient.h)
};

/// A spec, a storage with an offset into it (in elements), and a history (null: no gradient wanted).
class Value {
 public:
  Value() = default;
  Value(Spec spec, std::shared_ptr<Storage> storage, std::int64_t offset = 0) : spec_(std::move(spec)), storage_(std::move(storage)), offset_(offset) {}

  explicit operator bool() const { return storage_ != nullptr; }
  const Spec& spec() const { return spec_; }
  const Shape& shape() const { return spec_.shape; }
  DType dtype() const { return spec_.dtype; }
  std::int64_t elements() const { return spec_.elements(); }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  std::int64_t offset() const { return offset_; }
  /// @throws UsageError once it has ended
  Session& session() const {
    if (Session* const living = *storage_->session) return *living;
    refuse_ended();
  }
  const std::shared_ptr<Node>& node() const { return node_; }
  int output() const { return output_; }
  /// Whether a history leads to it, or it is a leaf that is not frozen.
  bool wants_gradient() const;

  /// The same tensor without history.
  Value detached() const { return {spec_, storage_, offset_}; }
  Value without_storage() const;
  Value with_node(std::shared_ptr<Node> node, int output) const;
  /// The same memory from `offset` further elements on, under another spec, without history.
  Value view(Spec spec, std::int64_t offset) const { return {std::move(spec), storage_, offset_ + offset}; }
  std::shared_ptr<Node> take_node() { return std::move(node_); }

 private:
  [[noreturn]] void refuse_ended() const;
  Spec spec_;
  std::shared_ptr<Storage> storage_;
  std::int64_t offset_ = 0;
  std::shared_ptr<Node> node_;
  int output_ = 0;
};

/// Rows of a table.
struct RowValues {
  Value indices;       // int32 or int64 [n]; a row that is named several times is the sum of what is given for it
  Value values;        // float32 [n, width]
  bool whole = false;  // values are those of the table's rows from the first to the last; index j is j, or -1 where that row is not given and is zero
};

/// What the gradient of a leaf is made as. `rows`: of those rows alone that were looked up, as long as it is used in nothing but lookups; an
/// optimizer then moves these rows alone.
enum class GradientForm { dense, rows };

/// Seen by a gradient on its way; may replace it.
using GradientHook = std::function<Value(const Value&)>;
class Backward;

/// History of one application, the same in every interpreter, released as the backward pass goes unless retained.
struct Node {
  struct Saved {
    Value value;                // with storage only if the gradient reads it
    std::uint64_t version = 0;  // of that storage when it was recorded
  };
  const OpDef* op = nullptr;  // null: a leaf
  Attributes attributes;
  std::uint64_t order = 0;     // later is larger: descending order is a backward order, the same in every interpreter
  std::vector<Saved> inputs;   // the edges
  std::vector<Saved> outputs;  // without node: a node never owns itself
  std::vector<std::pair<int, std::shared_ptr<const GradientHook>>> hooks;  // by output
  std::function<std::vector<Value>(const Backward&)> rule;                 // of a custom function: its gradient, in place of the record's
  std::shared_ptr<const OpDef> owned;                                      // keeps a record alive that was made for this node
  std::shared_ptr<const std::string> scope;                                // the module that applied it
  Value accumulated;                                                       // of a leaf: what backward passes have added up
  bool frozen = false;                                                     // of a leaf: it wants no gradient for now
  GradientForm gradient_form = GradientForm::dense;                        // of a leaf
  std::shared_ptr<ParameterSlab> slab;                                     // of a leaf: where its memory lies and its gradient has a place
  std::size_t index_in_slab = 0;
  bool symbolic = false;  // of a leaf: its tensor is a name in a graph
  bool released = false;
  const char* refusal = nullptr;  // what a pass that comes here is told, where it was not a pass that released it
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node();  // takes long chains apart in a loop
};

inline bool Value::wants_gradient() const { return node_ && !node_->frozen; }

/// Freezes a leaf, or lets it want a gradient again: all its handles see it. What was recorded before stays recorded.
/// @throws UsageError for a value that is no leaf
void set_wants_gradient(const Value& leaf, bool wanted);
/// @throws UsageError for a value that is no leaf, or for rows of what is not float32 [rows, width]
void set_gradient_form(const Value& leaf, GradientForm form);

Specs specs_of(std::span<const Value> values);

/// The history of one application, for the module that is running: its edges, with nothing kept for its gradient.
std::shared_ptr<Node> new_node(Session& session, const OpDef& op, const Values& inputs, const Values& outputs);

/// A tensor with the same storage that wants a gradient and has no history.
Value leaf(const Value& value);

/// Builds an argument list without copying handles: an initializer list would copy, and nothing could be reused.
template <class... V>
Values list(V&&... v) {
  Values out;
  out.reserve(sizeof...(v));
  (out.push_back(std::forward<V>(v)), ...);
  return out;
}

}  // namespace gemel
