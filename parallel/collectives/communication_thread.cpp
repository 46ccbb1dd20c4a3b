#include "parallel/collectives/communication_thread.h"

#include <algorithm>

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

void CommunicationThread::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

/// At once: whoever is told by work behind that it failed may let go of the turns.
void CommunicationThread::tell_turns() {
  if (failed_ && turns_) std::exchange(turns_, nullptr)->failed(failed_);
}

/// Waits for work that may run: without turns piece by piece, as any may be the one that begins them. @return none at the end
std::deque<CommunicationThread::Job> CommunicationThread::due_jobs(Collectives& c) {
  for (;;) {
    tell_turns();
    std::unique_lock lock(mutex_);
    if (!turns_) {
      changed_.wait(lock, [&] { return ending_ || !jobs_.empty(); });
      return take(ending_ && jobs_.empty() ? 0 : 1);
    }
    woken_ = false;
    const std::size_t queued = jobs_.size();
    if (ending_ && queued == 0) return {};
    const auto due = turns_->due({queued, startable()});
    const auto something_new = [&] { return woken_ || jobs_.size() != queued || ending_; };
    if (due > Turns::Clock::now() && changed_.wait_until(lock, due, something_new)) continue;
    lock.unlock();
    if (std::deque<Job> jobs = jobs_of_turn(c); !jobs.empty()) return jobs;
  }
}

/// From the first job on. Under the lock.
std::size_t CommunicationThread::startable() const {
  return static_cast<std::size_t>(std::ranges::find_if(jobs_, [](const Job& job) { return job.can_start && !job.can_start(); }) - jobs_.begin());
}

std::deque<CommunicationThread::Job> CommunicationThread::jobs_of_turn(Collectives& c) {
  try {
    std::size_t can_start = 0;
    {
      const std::lock_guard lock(mutex_);
      can_start = startable();
    }
    const std::size_t now = turns_->turn(c, can_start);
    const std::lock_guard lock(mutex_);
    return take(now);
  } catch (...) {
    failed_ = std::current_exception();
    return {};
  }
}

std::deque<CommunicationThread::Job> CommunicationThread::take(std::size_t count) {
  const auto end = jobs_.begin() + static_cast<std::ptrdiff_t>(count);
  std::deque<Job> out(std::make_move_iterator(jobs_.begin()), std::make_move_iterator(end));
  jobs_.erase(jobs_.begin(), end);
  return out;
}

void CommunicationThread::work(const Make& make, std::optional<Algorithm> fixed, std::promise<void> ready) {
  std::optional<Collectives> collectives;
  try {
    communicator_ = make();
    communicator_->waits().tell_doing([this] { return doing(); });
    collectives.emplace(*communicator_, fixed);
    if (!fixed) collectives->measure_limits();
    ready.set_value();
  } catch (const UsageError&) {  // the same on every rank
    collectives.reset();
    communicator_.reset();
    return ready.set_exception(std::current_exception());
  } catch (const std::exception& e) {
    if (communicator_) communicator_->abort(worded(e));  // its end would wait for ranks that met no error
    collectives.reset();
    communicator_.reset();
    return ready.set_exception(std::current_exception());
  }
  for (std::deque<Job> jobs = due_jobs(*collectives); !jobs.empty(); jobs = due_jobs(*collectives))
    for (; !jobs.empty(); jobs.pop_front()) {  // what a job holds is let go of when it has run
      communicator_->waits().at_step(jobs.front().step);
      jobs.front().run(*collectives);
      tell_turns();
    }
  communicator_->waits().at_step(step());
  collectives.reset();
  communicator_.reset();  // here, in the thread that made it
}

}  // namespace gemel::parallel
