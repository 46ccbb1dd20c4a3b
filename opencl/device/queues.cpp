#include "opencl/device/queues.h"

#include <memory>
#include <mutex>

#include "engine/base/error.h"
#include "opencl/event_wait.h"

namespace gemel::opencl {

void Queues::Shared::check() const {
  if (broken) throw DeviceError("fence: it was destroyed before it was complete; what was enqueued behind it has computed with unfinished data");
}

class Queues::State : public Event::State {
 public:
  State(EventHandle event, Queue queue, std::shared_ptr<const Shared> shared, Event after = {})
      : shared_(std::move(shared)), event_(std::move(event)), after_(std::move(after)), last_(shared_->last->name(queue)) {}
  bool done() const override { return status() <= CL_COMPLETE; }
  void wait() const override {
    const cl_int code = opencl::wait(event_);
    if (code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) after_.wait();
    shared_->last->check_until(last_, code, "clWaitForEvents");
    shared_->check();
  }
  void then(std::function<void()> call) const override {
    const auto listener = std::make_shared<Listener>();
    listener->call = std::move(call);
    auto given = std::make_unique<std::shared_ptr<Listener>>(listener);
    check(clSetEventCallback(event_.get(), CL_COMPLETE, &State::tell, given.get()), "clSetEventCallback");
    static_cast<void>(given.release());  // to the callback
    if (done()) listener->tell();        // oclgrind tells nobody who comes too late
  }
  cl_event get() const { return event_.get(); }
  bool is_of(const Shared& shared) const { return shared_.get() == &shared; }

 private:
  cl_int status() const {
    cl_int value = CL_COMPLETE;
    check(clGetEventInfo(event_.get(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof value, &value, nullptr), "clGetEventInfo");
    return value;
  }
  /// Who is told of an event, by the driver or by the one who asks too late.
  struct Listener {
    std::function<void()> call;
    std::once_flag once;
    void tell() { std::call_once(once, call); }
  };
  static void CL_CALLBACK tell(cl_event, cl_int, void* listener) {
    (*std::unique_ptr<std::shared_ptr<Listener>>(static_cast<std::shared_ptr<Listener>*>(listener)))->tell();
  }
  std::shared_ptr<const Shared> shared_;  // keeps the context: released after the event
  EventHandle event_;
  Event after_;
  const char* last_;  // work before it on its queue
};

Queues::Queues(std::shared_ptr<const Context> context, cl_device_id device, cl_command_queue compute, std::shared_ptr<LastWork> last)
    : shared_(std::make_shared<Shared>()), device_(device), compute_(compute) {
  shared_->context = std::move(context);
  shared_->last = std::move(last);
}

cl_command_queue Queues::get(Queue queue) {
  if (queue == Queue::compute) return compute_;
  std::call_once(transfer_is_made_, [this] {
    cl_int code = CL_SUCCESS;
    transfer_ = QueueHandle(clCreateCommandQueue(context(), device_, 0, &code));
    check(code, "clCreateCommandQueue", "for transfers");
  });
  return transfer_.get();
}

Event Queues::mark(Queue queue) {
  EventHandle event;
  last_work().check_on(queue, clEnqueueMarkerWithWaitList(get(queue), 0, nullptr, event.place()), "clEnqueueMarkerWithWaitList");
  last_work().check_on(queue, clFlush(get(queue)), "clFlush");  // or another thread would wait for ever
  return event_of(queue, std::move(event));
}

void Queues::wait_for(Queue queue, const Event& event) {
  if (const cl_event handle = handle_in(event))
    last_work().check_on(queue, clEnqueueBarrierWithWaitList(get(queue), 1, &handle, nullptr), "clEnqueueBarrierWithWaitList");
}

Fence Queues::make_fence() {
  cl_int code = CL_SUCCESS;
  EventHandle made(clCreateUserEvent(context(), &code));
  check(code, "clCreateUserEvent");
  const auto state = std::make_shared<State>(std::move(made), Queue::compute, shared_);
  ++shared_->open_fences;
  // An event that failed would end the process on some drivers and be overlooked by others: so a broken fence completes it, too.
  return {Event(state), [state, shared = shared_](Fence::End end) {
            if (end == Fence::End::broken) shared->broken = true;
            --shared->open_fences;
            clSetUserEventStatus(state->get(), CL_COMPLETE);
          }};
}

Event Queues::event_of(Queue queue, EventHandle event, Event after) const {
  return Event(std::make_shared<State>(std::move(event), queue, shared_, std::move(after)));
}

cl_event Queues::handle_in(const Event& event) const {
  if (!event.state()) return nullptr;
  const auto* state = dynamic_cast<const State*>(event.state().get());
  if (!state || !state->is_of(*shared_)) throw UsageError("wait_for: the event is another device's; accepted: one of this device");
  return state->get();
}

void Queues::check_fences() const { shared_->check(); }

}  // namespace gemel::opencl
