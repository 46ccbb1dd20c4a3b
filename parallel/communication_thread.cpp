#include "parallel/communication_thread.h"

#include "engine/base/error.h"

namespace gemel::parallel {

CommunicationThread::CommunicationThread(Make make, std::optional<Algorithm> fixed) {
  std::promise<void> ready;
  std::future<void> made = ready.get_future();
  thread_ = std::jthread([this, make = std::move(make), fixed, ready = std::move(ready)]() mutable { work(make, fixed, std::move(ready)); });
  made.get();
}

CommunicationThread::~CommunicationThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
}

void CommunicationThread::enqueue(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

std::string CommunicationThread::doing() const {
  const std::lock_guard lock(mutex_);
  return doing_;
}

void CommunicationThread::set_doing(std::string what) {
  const std::lock_guard lock(mutex_);
  doing_ = std::move(what);
}

void CommunicationThread::work(const Make& make, std::optional<Algorithm> fixed, std::promise<void> ready) {
  std::optional<Collectives> collectives;
  try {
    communicator_ = make();
    collectives.emplace(*communicator_, fixed);
    if (!fixed) collectives->measure_limits();
    ready.set_value();
  } catch (const UsageError&) {  // the same on every rank
    collectives.reset();
    communicator_.reset();
    return ready.set_exception(std::current_exception());
  } catch (const std::exception& e) {
    if (communicator_) communicator_->abort(e.what());  // its end would wait for ranks that met no error
    collectives.reset();
    communicator_.reset();
    return ready.set_exception(std::current_exception());
  }
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ending_ || !jobs_.empty(); });
    if (jobs_.empty()) break;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job(*collectives);
  }
  collectives.reset();
  communicator_.reset();  // here, in the thread that made it
}

}  // namespace gemel::parallel
