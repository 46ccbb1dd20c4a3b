// Session: a device (or the reference on the host), the trace in force, and the state that applications of operators share.
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

/// Random state of the current step, and the number of draws that each module has made in it.
class Random {
 public:
  /// The state, int64 [4]: seed, step, position of the batch's first sample in the epoch, fold (0 outside of loops). If the samples' positions
  /// are not consecutive: int64 [4 + samples], followed by the position of each sample.
  const Value& state();
  /// Begins a step with this state and resets the ordinals to 0.
  void begin(Value state);
  /// Replaces the state by what `make` returns at the next draw. Keeps the ordinals.
  void derive(std::function<Value()> make);
  /// True if `value` is the current state itself.
  bool is_state(const Value& value) const { return state_ && value.storage() == state_.storage(); }
  /// Takes over the ordinals of another state.
  void continue_ordinals(const Random& other) { ordinals_ = other.ordinals_; }
  /// Number of draws so far, by path of the module.
  const std::map<std::string, std::int64_t, std::less<>>& ordinals() const { return ordinals_; }
  /// Sets the number of draws that a module has made.
  void continue_after(const std::string& scope, std::int64_t draws) { ordinals_[scope] = draws; }
  /// Counts a draw of the module at path `scope`. @return its stream: a hash of the path and the ordinal of the draw
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
  /// Makes a session on a device and keeps the device alive. Only the thread that makes a session may apply operators in it.
  explicit Session(std::shared_ptr<opencl::Device> device, std::uint64_t seed = 1);
  /// Makes a session that computes in double on the host. Slow; results of devices are compared with it.
  static std::unique_ptr<Session> reference(std::uint64_t seed = 1);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  /// The trace in force. It decides what an application does, independent of the inputs.
  Trace& trace() { return **trace_; }
  /// The interpreter that computes, also while a graph is captured.
  Interpreter& interpreter() { return *interpreter_; }
  bool capturing() const { return *trace_ != interpreter_.get(); }
  /// @throws UsageError in the reference session
  opencl::Device& device();
  bool has_device() const { return device_ != nullptr; }
  /// @throws UsageError in another thread than the one that made the session
  void check_thread() const;

  /// Makes a tensor from bytes of its element type. @throws ShapeError if their number does not fit
  Value tensor(const Spec& spec, std::span<const std::byte> bytes);
  /// Makes a tensor from bytes that the transfer keeps alive: without a copy on the host, or by one to memory that the device reads while it computes.
  Value tensor(const Spec& spec, std::shared_ptr<const std::vector<std::byte>> bytes);
  /// Makes a tensor from numbers, rounded to the element type. The reference session keeps float32 values in double.
  Value tensor(const Spec& spec, std::span<const double> values);
  /// Makes a tensor from float32 numbers, without conversion if the tensor is float32.
  Value tensor(const Spec& spec, std::span<const float> values);
  /// Makes a tensor with undefined contents. @param what  names it in out-of-memory errors
  Value empty(const Spec& spec, std::string_view what = "tensor");

  Random& random() { return **random_; }
  std::uint64_t seed() const { return seed_; }
  /// Begins a random step in eager execution, for a batch of consecutive samples. @param first_sample  position of the first one in the epoch
  void begin_random_step(std::int64_t step, std::int64_t first_sample = 0);
  /// Begins a random step for a batch of any samples. @param places  position of each in the epoch
  void begin_random_step(std::int64_t step, std::span<const std::int64_t> places);
  /// Sets the seed, begins random step 0 and resets the counts of parameters by path.
  void manual_seed(std::uint64_t seed);
  /// Counts a parameter of this path. @return number of such parameters since the seed was set, so that each is initialised differently
  std::int64_t count_begun(const std::string& path) { return begun_[path]++; }

  /// Executor of a program that other programs run (a branch, the body of a loop). Kept as long as the program lives.
  Executor& executor(const std::shared_ptr<const Program>& program);
  /// Arena of all plans that do not run inside of another one.
  Arena& arena() { return *arena_; }

  bool gradients_enabled() const { return *gradients_enabled_; }
  std::uint64_t next_node() { return ++nodes_; }
  std::uint64_t nodes_made() const { return nodes_; }
  /// Path of the module that is running; "" outside of modules.
  const std::shared_ptr<const std::string>& scope() const { return *scope_; }
  /// Points to the session, or to null once the session has ended.
  std::shared_ptr<Session* const> itself() const { return itself_; }
  /// Clears a node's hooks and accumulated gradient when the session ends. For nodes that may own themselves, by a hook that holds their tensor or
  /// by a gradient with a history.
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
  std::size_t look_for_expired_at_ = 64;  // size at which expired nodes are removed
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<ExecutorCache> executors_;  // their plans may lie in the arena
};

/// Makes the random state of a step with the session's seed, in the layout of Random::state.
/// @param places  position of each sample in the epoch, if they are not consecutive
Value random_state(Session& session, std::int64_t step, std::int64_t first_sample = 0, std::span<const std::int64_t> places = {});

// Scopes replace a part of the session for their lifetimes. They may end in any order: the newest living scope holds.

/// Puts a trace in force.
class TraceScope {
 public:
  TraceScope(Session& session, Trace& trace) : scope_(session.trace_, &trace) {}

 private:
  Overridable<Trace*>::Scope scope_;
};

/// Puts a random state in force.
class RandomScope {
 public:
  RandomScope(Session& session, Random& random) : scope_(session.random_, &random) {}

 private:
  Overridable<Random*>::Scope scope_;
};

/// Replaces the path of the running module.
class PathScope {
 public:
  PathScope(Session& session, std::shared_ptr<const std::string> path) : scope_(session.scope_, std::move(path)) {}

 private:
  Overridable<std::shared_ptr<const std::string>>::Scope scope_;
};

/// Appends a name to the path of the running module: "layer1", then "conv1", gives "layer1.conv1".
class NameScope {
 public:
  NameScope(Session& session, std::string_view name);

 private:
  PathScope path_;
};

/// Turns the recording of histories on or off.
class GradientMode {
 public:
  enum class Mode { off, on };
  /// @throws UsageError in another thread than the one that made the session
  GradientMode(Session& session, Mode mode) : scope_((session.check_thread(), session.gradients_enabled_), mode == Mode::on) {}

 private:
  Overridable<bool>::Scope scope_;
};

/// Reads a tensor as bytes of its element type. Waits for the device.
/// @throws UsageError for a symbolic value
/// @throws DataError if a kernel has met an index or label out of range since the last read
std::vector<std::byte> read_bytes(const Value& value);
/// Reads a tensor as numbers; in the reference session as its doubles, unrounded. @throws as read_bytes
std::vector<double> read(const Value& value);
/// Reads a float32 tensor. @throws UsageError for another element type; else as read_bytes
std::vector<float> read_floats(const Value& value);
/// Reads a float32 tensor into `into`, whose memory is reused. @throws as read_floats above
void read_floats(const Value& value, std::vector<float>& into);
/// Starts a read without waiting. @return function that waits and returns the numbers
std::function<std::vector<double>()> read_later(const Value& value);
/// The same for several tensors of one session, in one transfer where the device has memory of its own.
std::function<std::vector<std::vector<double>>()> read_later(std::span<const Value> values);
/// Version of the storage of a value, as the trace in force counts it.
inline std::uint64_t version_of(const Value& value) { return value.session().trace().version(value.storage()); }
/// Overwrites a tensor and counts a write. @throws ShapeError if the number of bytes does not fit
void write(const Value& value, std::span<const std::byte> bytes);

}  // namespace gemel
