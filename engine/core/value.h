// Value: handle to a tensor. Storage: memory of a tensor, or its name in a graph. Node: history of a tensor, for autograd.
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

/// Memory of a tensor; derived classes are DeviceMemory and HostMemory.
class Memory {
 public:
  virtual ~Memory() = default;
};

/// Number of writes to a storage: to itself, and to ranges of it that are storages of their own.
struct Writes {
  std::uint64_t own = 0, ranges = 0;
};

/// Memory of a tensor with a count of its writes: (storage, version) identifies one content. Trace::version gives the version, because a graph counts
/// the writes that it records by itself. A storage without memory is symbolic: a name in the graph that is being captured.
struct Storage {
  Storage(Session& in_session, std::int64_t size);
  std::shared_ptr<Session* const> session;  // points to null once the session has ended
  std::shared_ptr<Memory> memory;           // shared only while an output takes over an input's
  std::shared_ptr<Storage> whole;           // storage that this one is a range of, if kernels also work on the whole (a slab)
  std::int64_t first = 0;                   // index of its first element in the whole
  std::int64_t elements = 0;
  Writes writes;
  std::uint64_t recorded = 0;                // version of the last write in place with a history, which older handles do not have
  std::shared_ptr<const std::string> graph;  // name of the graph that a symbolic storage belongs to; else null
  std::shared_ptr<const RowValues> rows;     // for a row gradient, in place of memory (engine/gradients/row_gradient.h)
};

/// Handle to a tensor: a spec, a storage with an offset in elements, and a history (null: no gradient is wanted).
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
  /// @throws UsageError if the session has ended
  Session& session() const {
    if (Session* const living = *storage_->session) return *living;
    refuse_ended();
  }
  const std::shared_ptr<Node>& node() const { return node_; }
  int output() const { return output_; }
  /// True for a value with a history and for a leaf that is not frozen.
  bool wants_gradient() const;

  /// This tensor without history.
  Value detached() const { return {spec_, storage_, offset_}; }
  Value without_storage() const;
  Value with_node(std::shared_ptr<Node> node, int output) const;
  /// A view that begins `offset` elements further in the same storage, with another spec and without history.
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

/// Rows of a table, with indices that say which.
struct RowValues {
  Value indices;       // int32 or int64 [n]; values of an index that occurs several times add up
  Value values;        // float32 [n, width]
  bool whole = false;  // `values` has all rows of the table; index j is j, or -1 for a row that is not given and is zero
};

/// Form of a leaf's gradient. `rows`: a row gradient of the rows that were looked up, if the leaf is used in lookups only; optimizers then update
/// these rows alone.
enum class GradientForm { dense, rows };

/// Called with a gradient during the backward pass. @return the gradient that replaces it, or an empty value
using GradientHook = std::function<Value(const Value&)>;
class Backward;

/// History of one application, equal in every interpreter; or a leaf. A backward pass releases it unless told to retain it.
struct Node {
  struct Saved {
    Value value;                // with a storage only if the gradient reads it
    std::uint64_t version = 0;  // version of the storage when the node was recorded
  };
  const OpDef* op = nullptr;  // null: a leaf
  Attributes attributes;
  std::uint64_t order = 0;     // number of the node; descending numbers are a backward order, equal in every interpreter
  std::vector<Saved> inputs;   // the edges
  std::vector<Saved> outputs;  // without node: a node never owns itself
  std::vector<std::pair<int, std::shared_ptr<const GradientHook>>> hooks;  // with the output that each belongs to
  std::function<std::vector<Value>(const Backward&)> rule;                 // gradient of a custom function; replaces that of the record
  std::shared_ptr<const OpDef> owned;                                      // keeps alive a record that was made for this node
  std::shared_ptr<const std::string> scope;                                // path of the module that applied the operator
  Value accumulated;                                                       // leaf: sum of the gradients of backward passes
  bool frozen = false;                                                     // leaf: wants no gradient for now
  GradientForm gradient_form = GradientForm::dense;                        // leaf
  std::shared_ptr<ParameterSlab> slab;                                     // leaf: slab that holds its memory and the place of its gradient
  std::size_t index_in_slab = 0;
  bool symbolic = false;  // leaf: its tensor is symbolic
  bool released = false;
  const char* refusal = nullptr;  // message for a pass that meets a released node, if no pass released it
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node();  // destroys long chains in a loop, not by recursion
};

inline bool Value::wants_gradient() const { return node_ && !node_->frozen; }

/// Freezes or unfreezes a leaf, for all its handles. Histories recorded before stay as they are.
/// @throws UsageError if the value is not a leaf
void set_wants_gradient(const Value& leaf, bool wanted);
/// Sets the form of a leaf's gradient. @throws UsageError if the value is not a leaf or is in a slab, or for rows if it is not float32 [rows, width]
void set_gradient_form(const Value& leaf, GradientForm form);

Specs specs_of(std::span<const Value> values);

/// Makes the node of one application by the running module, with its edges but without tensors for its gradient.
std::shared_ptr<Node> new_node(Session& session, const OpDef& op, const Values& inputs, const Values& outputs);

/// Makes a leaf: a handle to the same storage that wants a gradient and has no history.
Value leaf(const Value& value);

/// Builds a list of arguments by moving handles. An initializer list copies them, so that no memory could be reused.
template <class... V>
Values list(V&&... v) {
  Values out;
  out.reserve(sizeof...(v));
  (out.push_back(std::forward<V>(v)), ...);
  return out;
}

}  // namespace gemel
