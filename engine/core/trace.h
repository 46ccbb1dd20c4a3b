// The seam: `apply`. An interpreter is what happens behind it.
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

/// Behind the seam. Outputs arrive with fresh, empty storages.
class Trace {
 public:
  virtual ~Trace() = default;
  virtual void run(const OpDef& op, const Attributes& attributes, Values& inputs, Values& outputs) = 0;
  /// Whether gradients are taken by applying the recorded operators again, which knows nothing of custom gradients.
  virtual bool differentiates_by_replay() const { return false; }
  /// Where applications become instructions: how many there are so far.
  virtual std::size_t instructions() const { return 0; }
  /// The instructions (by index) that all which come from now on run after.
  const std::vector<int>& after() const { return *after_; }
  /// What is captured holds only as long as this does: a mode that was looked at, a leaf that was or was not frozen.
  virtual void assume(std::function<bool()> /*still_holds*/) {}
  /// How many nodes there were when the capture in force began (of a body: the one around it); 0 where nothing is captured.
  virtual std::uint64_t nodes_before() const { return 0; }
  /// How often a storage's memory was written, as histories that are recorded here count it: a range of a whole also with the
  /// whole, a whole also in its ranges.
  std::uint64_t version(const std::shared_ptr<Storage>& storage) {
    const Writes& w = writes(storage);
    return w.own + (storage->whole ? writes(storage->whole).own : w.ranges);
  }
  /// Counts a write.
  void wrote(const std::shared_ptr<Storage>& storage) {
    ++writes(storage).own;
    if (storage->whole) ++writes(storage->whole).ranges;
  }

 protected:
  virtual Writes& writes(const std::shared_ptr<Storage>& storage) { return storage->writes; }
  friend class GraphTrace;  // asks the trace that encloses it

 private:
  friend class RunAfter;
  Overridable<std::vector<int>> after_{{}};
};

/// While it lives, all that is recorded runs after these instructions.
class RunAfter {
 public:
  RunAfter(Trace& trace, std::vector<int> instructions) : scope_(trace.after_, std::move(instructions)) {}

 private:
  Overridable<std::vector<int>>::Scope scope_;
};

/// Whether a leaf is frozen, or not, as it is now: for `Trace::assume`.
/// @param nodes_before  a leaf made later is the capture's own and may go with it
std::function<bool()> stays_as_frozen(const Value& leaf, std::uint64_t nodes_before);

/// Counts a write as computation counts it.
inline void count_write(Storage& storage) {
  ++storage.writes.own;
  if (storage.whole) ++storage.whole->writes.ranges;
}

/// Waits for a read that is under way, and gives its bytes.
using PendingBytes = std::function<std::vector<std::byte>()>;

/// What stays the same each time one operator computes one problem: the variant chosen and all that it enqueues.
struct Prepared {
  virtual ~Prepared() = default;
};

/// What a plan's arena has to keep to.
struct ArenaLimits {
  std::int64_t alignment, largest_slab;  // in bytes
};

/// A trace that computes: on a device, or in double on the host (reference).
class Interpreter : public Trace {
 public:
  /// Allocates the outputs, taking over an input's memory where the record allows it and nobody else holds it; computes.
  void run(const OpDef& op, const Attributes& attributes, Values& inputs, Values& outputs) final;
  /// Computes one operator, then tells the observers. All inputs and outputs have memory.
  /// @param prepared  of this operator, these attributes (the same object) and these specs, or null
  void compute(const OpDef& op, const Attributes& attributes, std::span<const Value> inputs, std::span<const Value> outputs, Prepared* prepared = nullptr) {
    compute_now(op, attributes, inputs, outputs, prepared);
    for (auto it = observers_.begin(); it != observers_.end();) {
      if (const auto observer = it->lock()) {  // held while it is told: it may let go of itself
        (*observer)(op, inputs, outputs);
        ++it;
      } else {
        it = observers_.erase(it);
      }
    }
  }
  /// For problems that are computed again and again; the same problem's may be shared. Null: there is nothing to prepare.
  virtual std::shared_ptr<Prepared> prepare(const OpDef&, const Attributes&, const Specs& /*inputs*/, const Specs& /*outputs*/) { return nullptr; }
  /// Sees every operator after it was computed (on a device: enqueued), from either front end.
  using Observer = std::function<void(const OpDef&, std::span<const Value> inputs, std::span<const Value> outputs)>;
  /// @return while it is held, the observer is told. An observer may let go of it, and of others', while it is told
  [[nodiscard]] std::shared_ptr<void> observe(Observer observer);
  bool observed() const;
  virtual std::unique_ptr<Memory> allocate(const Spec& spec, std::string_view what) = 0;
  /// Null where tensors do not share memory: each slot of a plan has its own.
  virtual std::optional<ArenaLimits> arena_limits() const { return std::nullopt; }
  /// The largest memory that `allocate_bytes` gives, in bytes.
  virtual std::int64_t largest_allocation() const = 0;
  /// Memory that is divided: an arena, a slab.
  virtual std::unique_ptr<Memory> allocate_bytes(std::int64_t bytes, std::string_view what) = 0;
  /// Gives back what is kept for later requests.
  virtual void trim() {}
  /// A range of it, which keeps it alive.
  virtual std::unique_ptr<Memory> part_of(std::shared_ptr<const Memory> whole, std::int64_t offset, std::int64_t bytes) const = 0;
  /// Copies host bytes in the tensor's own element type.
  virtual void write(const Value& to, std::span<const std::byte> from) = 0;
  /// The same from memory that the transfer may keep alive instead of copying it.
  virtual void write(const Value& to, std::shared_ptr<const std::vector<std::byte>> from) { write(to, std::span(*from)); }
  /// The same with bytes that `make` fills in, in the tensor's own memory where the host reaches it.
  virtual void write(const Value& to, const std::function<void(std::span<std::byte>)>& make);
  virtual void read(const Value& from, std::span<std::byte> to) = 0;
  /// Starts a read; the bytes come when asked for.
  virtual PendingBytes read_later(const Value& from) = 0;
  /// Copies within the device; specs are equal in elements and type.
  virtual void copy(const Value& from, const Value& to) = 0;

 protected:
  virtual void compute_now(const OpDef& op, const Attributes& attributes, std::span<const Value> inputs, std::span<const Value> outputs,
                           Prepared* prepared) = 0;

 private:
  std::list<std::weak_ptr<const Observer>> observers_;  // in the order in which they came
};

/// Applies an operator: infers, refuses, records where a gradient is wanted, runs, bumps the versions of what it writes.
/// @throws ShapeError what `infer` refuses, prefixed with the module's path
/// @param into  memory for outputs, one an output or none at all; an empty value: memory of its own. Not for what a history reads
/// @throws UsageError an input from a graph that is not being captured, or one written in place that wants a gradient; another
/// thread than the session's
Values apply(Session& session, const OpDef& op, Values inputs, Attributes attributes = {}, std::span<const Value> into = {});
/// In the session of the first input.
Values apply(const OpDef& op, Values inputs, Attributes attributes = {}, std::span<const Value> into = {});

}  // namespace gemel
