// Events, which a device or the host completes once and either waits for; fences, which are events in the host's hands.
#pragma once
#include <functional>
#include <memory>
#include <utility>

namespace gemel {

/// Something that happens once. Handles are copied freely, also to other threads. An empty one has happened.
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
  /// Whether it has happened. Waits for nothing.
  bool done() const { return !state_ || state_->done(); }
  /// Sleeps until it has happened. @throws DeviceError where the work failed, or a fence of its device was broken
  void wait() const {
    if (state_) state_->wait();
  }
  /// Calls once it has happened, maybe in a thread of the driver's: what is called returns soon and throws nothing.
  void then(std::function<void()> call) const {
    if (state_)
      state_->then(std::move(call));
    else
      call();
  }
  /// What happens; null for an empty one.
  const std::shared_ptr<const State>& state() const { return state_; }

 private:
  std::shared_ptr<const State> state_;
};

/// Holds work of a device back until the host completes it. Destroyed before that it is broken: the work runs, so that nothing hangs,
/// and whoever then reads from the device, or waits for one of its events, is told by a DeviceError.
class Fence {
 public:
  enum class End { complete, broken };
  /// @param event  that `end` brings about
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
  /// From any thread. Once more does nothing.
  void complete() {
    if (const auto end = std::exchange(end_, nullptr)) end(End::complete);
  }

 private:
  Event event_;
  std::function<void(End)> end_;
};

}  // namespace gemel
