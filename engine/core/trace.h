// `apply`, the seam that every application of an operator goes through, and Trace, the interface behind it.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/overridable.h"
#include "engine/core/op.h"
#include "engine/core/value.h"

namespace gemel {

/// Runs or records applications of operators.
class Trace {
 public:
  virtual ~Trace() = default;
  /// Runs or records one application. @param outputs  with new storages without memory, except where `apply` was given memory
  virtual void run(const OpDef& op, const Attributes& attributes, Values& inputs, Values& outputs) = 0;
  /// True if gradients are taken by applying the recorded operators again, so that custom gradients are not used.
  virtual bool differentiates_by_replay() const { return false; }
  /// Number of instructions recorded so far; 0 in an interpreter.
  virtual std::size_t instructions() const { return 0; }
  /// Indices of instructions that all further instructions must run after.
  const std::vector<int>& after() const { return *after_; }
  /// Adds an assumption of the capture, such as the mode of a module or whether a leaf is frozen. The program is valid while it still holds.
  virtual void assume(std::function<bool()> /*still_holds*/) {}
  /// Number of nodes when the outermost capture in force began; 0 without a capture.
  virtual std::uint64_t nodes_before() const { return 0; }
  /// Number of writes to the memory of a storage, as this trace counts them. A write to a whole counts for its ranges, and a write to a
  /// range counts for its whole.
  std::uint64_t version(const std::shared_ptr<Storage>& storage) {
    const Writes& w = writes(storage);
    return w.own + (storage->whole ? writes(storage->whole).own : w.ranges);
  }
  /// Counts a write to a storage.
  void wrote(const std::shared_ptr<Storage>& storage) {
    ++writes(storage).own;
    if (storage->whole) ++writes(storage->whole).ranges;
  }

 protected:
  virtual Writes& writes(const std::shared_ptr<Storage>& storage) { return storage->writes; }
  friend class GraphTrace;  // reads the counts of the enclosing trace

 private:
  friend class RunAfter;
  Overridable<std::vector<int>> after_{{}};
};

/// Scope in which all recorded instructions must run after the given ones.
class RunAfter {
 public:
  RunAfter(Trace& trace, std::vector<int> instructions) : scope_(trace.after_, std::move(instructions)) {}

 private:
  Overridable<std::vector<int>>::Scope scope_;
};

/// Assumption for `Trace::assume`: the leaf stays frozen, or unfrozen, as it is now.
/// @param nodes_before  of Trace; a leaf made later belongs to the capture and may be destroyed with it
std::function<bool()> stays_as_frozen(const Value& leaf, std::uint64_t nodes_before);

/// Counts a write that is computed, not recorded.
inline void count_write(Storage& storage) {
  ++storage.writes.own;
  if (storage.whole) ++storage.whole->writes.ranges;
}

/// Waits for a pending read and returns the bytes of each tensor.
using PendingBytes = std::function<std::vector<std::vector<std::byte>>()>;

/// State of a problem that is computed repeatedly: the chosen variant and the commands that it enqueues.
struct Prepared {
  virtual ~Prepared() = default;
};

/// Limits that a plan's memory layout must respect.
struct ArenaLimits {
  std::int64_t alignment, largest_slab;  // in bytes
};

/// A trace that computes: on a device, or in double on the host.
class Interpreter : public Trace {
 public:
  /// Allocates the outputs and computes. An output takes over the memory of an input if the record allows it and nothing else holds the input.
  void run(const OpDef& op, const Attributes& attributes, Values& inputs, Values& outputs) final;
  /// Computes one operator, then calls the observers. All inputs and outputs must have memory.
  /// @param prepared  from `prepare` with this operator, this attributes object and these specs, or null
  void compute(const OpDef& op, const Attributes& attributes, std::span<const Value> inputs, std::span<const Value> outputs, Prepared* prepared = nullptr) {
    compute_now(op, attributes, inputs, outputs, prepared);
    for (auto it = observers_.begin(); it != observers_.end();) {
      if (const auto observer = it->lock()) {  // kept alive during the call: it may release itself
        (*observer)(op, inputs, outputs);
        ++it;
      } else {
        it = observers_.erase(it);
      }
    }
  }
  /// Prepares a problem that is computed repeatedly. Calls for equal problems may return the same object. @return null if nothing can be prepared
  virtual std::shared_ptr<Prepared> prepare(const OpDef&, const Attributes&, const Specs& /*inputs*/, const Specs& /*outputs*/) { return nullptr; }
  /// Told of problems before they are prepared or computed, so that a device builds what they need together.
  virtual void expect(std::span<const OwnedProblem>) {}
  /// Called after each operator is computed (on a device: enqueued), by either front end.
  using Observer = std::function<void(const OpDef&, std::span<const Value> inputs, std::span<const Value> outputs)>;
  /// Adds an observer. @return owner of the registration; it may be released during a call, too
  [[nodiscard]] std::shared_ptr<void> observe(Observer observer);
  bool observed() const;
  /// Allocates memory of one tensor. @param what  names it in out-of-memory errors
  virtual std::unique_ptr<Memory> allocate(const Spec& spec, std::string_view what) = 0;
  /// Empty if tensors cannot share memory: each slot of a plan then has memory of its own.
  virtual std::optional<ArenaLimits> arena_limits() const { return std::nullopt; }
  /// Largest size that `allocate_bytes` accepts, in bytes.
  virtual std::int64_t largest_allocation() const = 0;
  /// Allocates memory that is divided by `part_of`, for an arena or a slab.
  virtual std::unique_ptr<Memory> allocate_bytes(std::int64_t bytes, std::string_view what) = 0;
  /// Releases cached memory.
  virtual void trim() {}
  /// A range of memory, in bytes. It keeps the whole alive.
  virtual std::unique_ptr<Memory> part_of(std::shared_ptr<const Memory> whole, std::int64_t offset, std::int64_t bytes) const = 0;
  /// Writes a tensor from host bytes of its element type. Copies the bytes before it returns.
  virtual void write(const Value& to, std::span<const std::byte> from) = 0;
  /// Writes a tensor from host bytes, which the transfer may keep alive instead of copying them.
  virtual void write(const Value& to, std::shared_ptr<const std::vector<std::byte>> from) { write(to, std::span(*from)); }
  /// Writes a tensor with bytes that `make` fills in, directly in its memory if the host can access that.
  virtual void write(const Value& to, const std::function<void(std::span<std::byte>)>& make);
  /// Reads a tensor to host bytes. Waits.
  virtual void read(const Value& from, std::span<std::byte> to) = 0;
  /// Starts a read of several tensors. @return function that waits for the bytes
  virtual PendingBytes read_later(std::span<const Value> from) = 0;
  /// Copies one tensor to another of the same element type and number of elements.
  virtual void copy(const Value& from, const Value& to) = 0;

 protected:
  virtual void compute_now(const OpDef& op, const Attributes& attributes, std::span<const Value> inputs, std::span<const Value> outputs,
                           Prepared* prepared) = 0;

 private:
  std::list<std::weak_ptr<const Observer>> observers_;  // in order of registration
};

/// Applies an operator: infers the outputs' specs, records a node if an input wants a gradient, runs, and counts the writes.
/// @param into  memory for each output (an empty value: new memory), or empty; not for outputs that a history reads
/// @throws ShapeError if `infer` refuses the inputs; the message begins with the path of the running module
/// @throws UsageError for an input of a graph that is not being captured, an input written in place that wants a gradient, or a call from
///         another thread than the session's
Values apply(Session& session, const OpDef& op, Values inputs, Attributes attributes = {}, std::span<const Value> into = {});
/// Applies an operator in the session of the first input. @throws UsageError without inputs
Values apply(const OpDef& op, Values inputs, Attributes attributes = {}, std::span<const Value> into = {});

}  // namespace gemel
