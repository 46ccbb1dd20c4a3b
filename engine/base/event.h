// Event: completed once, by a device or by the host. Fence: an event that the host completes.
#pragma once
#include <functional>
#include <memory>
#include <utility>

namespace gemel {

/// A one-time completion. Handles can be copied and passed to other threads. An empty event is complete.
class Event {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual bool done() const = 0;
    virtual void wait() const = 0;
    virtual void then(std::function<void()> call) const = 0;
  };

  Event() = default;
  explicit Event(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  /// True if the event is complete. Does not wait.
  bool done() const { return !state_ || state_->done(); }
  /// Blocks until the event is complete. @throws DeviceError if the work failed or a fence of its device was broken
  void wait() const {
    if (state_) state_->wait();
  }
  /// Calls `call` when the event is complete, possibly in a thread of the driver: `call` must be short and must not throw.
  void then(std::function<void()> call) const {
    if (state_)
      state_->then(std::move(call));
    else
      call();
  }
  /// Null for an empty event.
  const std::shared_ptr<const State>& state() const { return state_; }

 private:
  std::shared_ptr<const State> state_;
};

/// Delays work of a device until the host completes the fence. A fence that is destroyed before is broken: the delayed work runs, so that
/// nothing hangs, and later reads from the device and waits for its events throw DeviceError.
class Fence {
 public:
  enum class End { complete, broken };
  /// @param event  completed by `end`
  Fence(Event event, std::function<void(End)> end) : event_(std::move(event)), end_(std::move(end)) {}
  Fence(Fence&& other) noexcept : event_(std::move(other.event_)), end_(std::exchange(other.end_, nullptr)) {}
  Fence& operator=(Fence&& other) noexcept {
    std::swap(event_, other.event_);
    std::swap(end_, other.end_);
    return *this;
  }
  ~Fence() {
    if (end_) end_(End::broken);
  }
  const Event& event() const { return event_; }
  /// Completes the event. May be called from any thread; further calls have no effect.
  void complete() {
    if (const auto end = std::exchange(end_, nullptr)) end(End::complete);
  }

 private:
  Event event_;
  std::function<void(End)> end_;
};

}  // namespace gemel
