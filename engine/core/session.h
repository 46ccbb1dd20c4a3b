// Session: one device (or the host reference), the interpreter now in force, and the state that applications share.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/base/overridable.h"
#include "engine/core/trace.h"
#include "engine/core/value.h"

namespace gemel::opencl {
class Device;
}

namespace gemel {

/// Where random operators draw from: the state of the current step, and how often each module has drawn in it.
class Random {
 public:
  /// int64 [4]: seed, step, place of the batch's first sample in the epoch's order, fold (0 outside loops). Where the samples' places
  /// do not follow each other: int64 [4 + samples], the places behind.
  const Value& state();
  /// Begins a step: ordinals count from 0 again.
  void begin(Value state);
  /// Replaces the state by one that is made when something draws; ordinals go on.
  void derive(std::function<Value()> make);
  /// Whether draws take exactly this value as their state.
  bool is_state(const Value& value) const { return state_ && value.storage() == state_.storage(); }
  /// Ordinals go on where the other's are.
  void continue_ordinals(const Random& other) { ordinals_ = other.ordinals_; }
  /// Draws so far, by the path of the module that made them.
  const std::map<std::string, std::int64_t, std::less<>>& ordinals() const { return ordinals_; }
  /// The module's next draw comes after so many.
  void continue_after(const std::string& scope, std::int64_t draws) { ordinals_[scope] = draws; }
  /// Names the next draw of the module in `scope`: a hash of its path and an ordinal in it.
  std::int64_t next_stream(std::string_view scope);

 private:
  Value state_;
  std::function<Value()> make_state_;
  std::map<std::string, std::int64_t, std::less<>> ordinals_;
};

class Executor;
class ExecutorCache;
class Arena;

class Session {
 public:
  /// Computation on a device, which the session keeps alive. The thread that makes a session is the one that applies operators in it.
  explicit Session(std::shared_ptr<opencl::Device> device, std::uint64_t seed = 1);
  /// Computation in double on the host: slow, exact, the measure of everything else.
  static std::unique_ptr<Session> reference(std::uint64_t seed = 1);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  /// The interpreter in force decides what an application does, whatever its inputs.
  Trace& trace() { return **trace_; }
  /// The one that computes, also while a graph is captured.
  Interpreter& interpreter() { return *interpreter_; }
  bool capturing() const { return *trace_ != interpreter_.get(); }
  /// @throws UsageError in the reference session
  opencl::Device& device();
  bool has_device() const { return device_ != nullptr; }
  /// @throws UsageError in another thread than the one that made the session
  void check_thread() const;

  /// A tensor with these contents, in its own element type.
  Value tensor(const Spec& spec, std::span<const std::byte> bytes);
  /// The same from memory that the transfer keeps alive, without a copy on the host.
  Value tensor(const Spec& spec, std::shared_ptr<const std::vector<std::byte>> bytes);
  /// The same from numbers, rounded to the element type (kept in double by the reference session).
  Value tensor(const Spec& spec, std::span<const double> values);
  /// The same from an array of float32, as it lies where the tensor is of that type.
  Value tensor(const Spec& spec, std::span<const float> values);
  /// A tensor with memory and no defined contents.
  Value empty(const Spec& spec, std::string_view what = "tensor");

  Random& random() { return **random_; }
  std::uint64_t seed() const { return seed_; }
  /// Begins a random step from host numbers (eager): (seed, step, first sample).
  void begin_random_step(std::int64_t step, std::int64_t first_sample = 0);
  /// The same for a batch of samples from anywhere in the epoch's order.
  void begin_random_step(std::int64_t step, std::span<const std::int64_t> places);
  /// Seed of what is drawn from now on; begins step 0, and parameters of any path start as the first of that path do.
  void manual_seed(std::uint64_t seed);
  /// How many parameters of this path were begun since the seed was set, before the one that begins now: two of a path start differently.
  std::int64_t count_begun(const std::string& path) { return begun_[path]++; }

  /// The executor of a program that other programs run (a branch, a loop's body): kept as long as the program is.
  Executor& executor(const std::shared_ptr<const Program>& program);
  /// Where plans run that no other plan runs.
  Arena& arena() { return *arena_; }

  bool gradients_enabled() const { return *gradients_enabled_; }
  std::uint64_t next_node() { return ++nodes_; }
  std::uint64_t nodes_made() const { return nodes_; }
  /// Path of the module now running, "" outside.
  const std::shared_ptr<const std::string>& scope() const { return *scope_; }
  /// By it others see whether the session is still there: null behind it once it has ended.
  std::shared_ptr<Session* const> itself() const { return itself_; }
  /// A node that may own itself, by a hook that holds its tensor or by a gradient with a history, lets go of these at the end of the session.
  void release_at_end(const std::shared_ptr<Node>& node);

 private:
  friend class TraceScope;
  friend class RandomScope;
  friend class PathScope;
  friend class GradientMode;
  Session(std::unique_ptr<Interpreter> interpreter, std::shared_ptr<opencl::Device> device, std::uint64_t seed);
  std::shared_ptr<opencl::Device> device_;
  std::unique_ptr<Interpreter> interpreter_;
  std::thread::id thread_ = std::this_thread::get_id();
  const std::shared_ptr<Session*> itself_ = std::make_shared<Session*>(this);
  Overridable<Trace*> trace_;
  std::uint64_t nodes_ = 0;
  std::uint64_t seed_ = 1;
  std::map<std::string, std::int64_t> begun_;  // parameters, by path
  Random own_random_;
  Overridable<Random*> random_{&own_random_};
  Overridable<bool> gradients_enabled_{true};
  Overridable<std::shared_ptr<const std::string>> scope_{std::make_shared<const std::string>()};
  std::set<std::weak_ptr<Node>, std::owner_less<>> released_at_end_;
  std::size_t look_for_expired_at_ = 64;  // nodes
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<ExecutorCache> executors_;  // their plans may lie in the arena
};

/// A step's state for Random, of the session's seed. @param places  of the samples, where they do not follow each other
Value random_state(Session& session, std::int64_t step, std::int64_t first_sample = 0, std::span<const std::int64_t> places = {});

// Scopes put something in force for their lifetimes. They may end in any order: what is in force is what the latest that lives has put there.

class TraceScope {
 public:
  TraceScope(Session& session, Trace& trace) : scope_(session.trace_, &trace) {}

 private:
  Overridable<Trace*>::Scope scope_;
};

/// Where draws take their state from.
class RandomScope {
 public:
  RandomScope(Session& session, Random& random) : scope_(session.random_, &random) {}

 private:
  Overridable<Random*>::Scope scope_;
};

/// Replaces the session's path.
class PathScope {
 public:
  PathScope(Session& session, std::shared_ptr<const std::string> path) : scope_(session.scope_, std::move(path)) {}

 private:
  Overridable<std::shared_ptr<const std::string>>::Scope scope_;
};

/// Pushes a name on the session's path: "layer1" then "conv1" is "layer1.conv1".
class NameScope {
 public:
  NameScope(Session& session, std::string_view name);

 private:
  PathScope path_;
};

/// Turns the recording of histories off or on.
class GradientMode {
 public:
  enum class Mode { off, on };
  /// @throws UsageError in another thread than the one that made the session
  GradientMode(Session& session, Mode mode) : scope_((session.check_thread(), session.gradients_enabled_), mode == Mode::on) {}

 private:
  Overridable<bool>::Scope scope_;
};

/// Contents in the element type's own bytes. Waits for the device.
/// @throws UsageError for a symbolic value  @throws DataError where a kernel met an index or label out of range since the last read
std::vector<std::byte> read_bytes(const Value& value);
/// Contents as numbers (the reference session gives its doubles unrounded).
std::vector<double> read(const Value& value);
/// Contents of a float32 tensor, without a detour through double. @throws UsageError for another element type
std::vector<float> read_floats(const Value& value);
/// The same into memory that is kept from one read to the next.
void read_floats(const Value& value, std::vector<float>& into);
/// Starts a read without waiting for what is enqueued. The call that it returns waits and gives the numbers.
std::function<std::vector<double>()> read_later(const Value& value);
/// How often the storage was written, as the trace in force counts it.
inline std::uint64_t version_of(const Value& value) { return value.session().trace().version(value.storage()); }
/// Overwrites the contents and bumps the version.
void write(const Value& value, std::span<const std::byte> bytes);

}  // namespace gemel
