#include "parallel/transport/thread_communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <tuple>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "parallel/transport/shared_memory.h"

namespace gemel::parallel {
namespace {

/// One side of a message.
struct Offer {
  enum class Side { send, receive } side;
  std::byte* bytes;
  std::size_t count;
  bool done = false;
  std::string error{};
};

/// Which messages may meet: those of one group from one rank to another with one tag.
using Way = std::tuple<std::string, int, int, int>;

HostBytes pages_of(std::int64_t bytes) {
  const std::size_t whole = at(round_up(std::max<std::int64_t>(bytes, 1), kHostPage));
  const std::shared_ptr<std::byte> first(static_cast<std::byte*>(std::aligned_alloc(at(kHostPage), whole)), std::free);
  if (!first) throw MemoryError(fmt::format("communicator: {} bytes cannot be had", whole));
  std::memset(first.get(), 0, whole);
  return {first, static_cast<std::int64_t>(whole)};
}

/// What the ranks of a group get from one `allocate` of each.
struct Allocation {
  std::vector<HostBytes> of;  // [rank of the group]
};

/// What all ranks of a process share: where sends meet receives, and memory by name.
class Exchange {
 public:
  /// The side that comes second copies.
  void offer(const Way& way, const std::shared_ptr<Offer>& mine) {
    {
      const std::lock_guard lock(mutex_);
      auto& waiting = waiting_[way];
      if (waiting.empty() || waiting.front()->side == mine->side) {
        waiting.push_back(mine);
        return;
      }
      const std::shared_ptr<Offer> other = waiting.front();
      waiting.pop_front();
      const Offer &from = mine->side == Offer::Side::send ? *mine : *other, &to = mine->side == Offer::Side::send ? *other : *mine;
      if (from.count != to.count)
        mine->error = other->error = fmt::format("receive: {} bytes are awaited, and {} were sent", to.count, from.count);
      else if (to.count)
        std::memcpy(to.bytes, from.bytes, to.count);
      mine->done = other->done = true;
    }
    changed_.notify_all();
  }
  /// Of a rank that gives up: nobody touches its memory from here on.
  void withdraw(const Way& way, const std::shared_ptr<Offer>& mine) {
    const std::lock_guard lock(mutex_);
    if (!mine->done) std::erase(waiting_[way], mine);
  }
  /// @param check  looked at now and then, without the lock
  void wait(const Offer& offer, const WaitCheck& check) {
    using namespace std::chrono_literals;
    for (std::unique_lock lock(mutex_); !changed_.wait_for(lock, 20ms, [&] { return finished(offer); }); lock.lock()) {
      lock.unlock();
      check.check();
    }
  }
  /// A rank of a group that is told of another.
  using Ear = std::pair<std::string, int>;
  void tell(const Ear& to, const Notes::Heard& note) {
    const std::lock_guard lock(notes_mutex_);
    notes_[to].push_back(note);
  }
  std::optional<Notes::Heard> hear(const Ear& ear) {
    const std::lock_guard lock(notes_mutex_);
    auto& told = notes_[ear];
    if (told.empty()) return std::nullopt;
    const Notes::Heard first = told.front();
    told.pop_front();
    return first;
  }
  void abort(const std::string& why) {
    abort_.raise(why);
    { const std::lock_guard lock(mutex_); }  // whoever was about to sleep sleeps, and is woken
    changed_.notify_all();
  }
  const AbortFlag& abort_flag() const { return abort_; }

  /// Zeros that all ranks find under this name, made by whoever asks first.
  HostBytes memory(const std::string& name, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    HostBytes& memory = memory_[name];
    if (!memory.first) memory = pages_of(bytes);
    return memory;
  }
  /// What the ranks of a group share whose allocation has this number. One that all of them have released is freed at the next.
  std::shared_ptr<Allocation> allocation(const std::string& group, int number, int ranks) {
    const std::lock_guard lock(mutex_);
    // Where an error ends a rank, others may still read and write what it has released.
    if (!abort_.raised()) std::erase_if(allocations_, [](const auto& entry) { return entry.second.use_count() == 1; });
    std::shared_ptr<Allocation>& found = allocations_[{group, number}];
    if (!found) found = std::make_shared<Allocation>(Allocation{std::vector<HostBytes>(at(ranks))});
    return found;
  }

 private:
  bool finished(const Offer& offer) const {
    if (!offer.error.empty()) throw CommError(offer.error);
    if (!offer.done) abort_.check();
    return offer.done;
  }
  std::mutex mutex_, notes_mutex_;
  std::condition_variable changed_;
  AbortFlag abort_;
  std::map<Ear, std::deque<Notes::Heard>> notes_;
  std::map<Way, std::deque<std::shared_ptr<Offer>>> waiting_;
  std::map<std::string, HostBytes> memory_;
  std::map<std::pair<std::string, int>, std::shared_ptr<Allocation>> allocations_;
};

/// Of a communicator that outlives it.
class ThreadTransfer : public Transfer::State {
 public:
  ThreadTransfer(std::shared_ptr<Exchange> exchange, Way way, std::shared_ptr<Offer> offer, Communicator& of, const Participation::Message& message)
      : exchange_(std::move(exchange)), way_(std::move(way)), offer_(std::move(offer)), of_(of), message_(message) {}
  ~ThreadTransfer() override { exchange_->withdraw(way_, offer_); }
  void wait() override {
    const Participation::Awaited awaited(of_.participation(), message_);
    exchange_->wait(*offer_, of_.waits());
  }

 private:
  std::shared_ptr<Exchange> exchange_;
  Way way_;
  std::shared_ptr<Offer> offer_;
  Communicator& of_;
  Participation::Message message_;
};

/// All memory of a process is seen by its threads: a place is an address. Only of what `allocate` gave: other memory is freed by a rank that
/// throws, while others may still write into it.
class ThreadGroup : public SharedGroup {
 public:
  ThreadGroup(int rank, int size, const WaitCheck& check, std::shared_ptr<Exchange> exchange, const std::string& name)
      : SharedGroup(rank, size, check), exchange_(std::move(exchange)), name_(name), control_(exchange_->memory(name, control_bytes(size))) {
    use(control_.first.get());
  }
  HostBytes allocate(std::int64_t bytes) override {
    const auto all = exchange_->allocation(name_, allocations_++, size());
    HostBytes& mine = all->of[at(rank())];
    mine = pages_of(bytes);
    std::erase_if(given_, [](const auto& a) { return a.expired(); });
    given_.push_back(all);
    return {std::shared_ptr<std::byte>(all, mine.first.get()), mine.bytes};
  }

 private:
  SharedPlace place_of(const std::byte* data) const override {
    for (const auto& given : given_) {
      const auto all = data ? given.lock() : nullptr;
      if (!all) continue;
      const HostBytes& mine = all->of[at(rank())];
      if (data >= mine.first.get() && data < mine.first.get() + mine.bytes) return {0, reinterpret_cast<std::intptr_t>(data)};
    }
    return {};
  }
  std::byte* address_of(int, const SharedPlace& place) const override { return place.segment < 0 ? nullptr : reinterpret_cast<std::byte*>(place.offset); }
  std::shared_ptr<Exchange> exchange_;
  std::string name_;
  HostBytes control_;
  int allocations_ = 0;  // so far
  std::vector<std::weak_ptr<Allocation>> given_;
};

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(const Member& self, std::shared_ptr<Exchange> exchange, std::string name)
      : Communicator(self), exchange_(std::move(exchange)), name_(std::move(name)) {
    if (local_size() > 1)
      shared_ = std::make_unique<ThreadGroup>(local_rank(), local_size(), this->waits(), exchange_, fmt::format("{} on {}", name_, host(self.rank)));
    if (shared_ && this->placement().cores[at(self.rank)] == 0) shared_->policy().spin_ns = 0;
  }
  ~ThreadCommunicator() override { goodbye(); }

  Transfer send(int to, std::span<const std::byte> bytes, int tag) override {
    return offer({name_, rank(), to, tag}, {Offer::Side::send, const_cast<std::byte*>(bytes.data()), bytes.size()}, participation().sends(to));
  }
  Transfer receive(int from, std::span<std::byte> bytes, int tag) override {
    return offer({name_, from, rank(), tag}, {Offer::Side::receive, bytes.data(), bytes.size()}, participation().receives(from));
  }
  std::string_view carrier() const override { return "threads"; }
  std::unique_ptr<Communicator> group(std::span<const int> ranks) override {
    const std::string list = fmt::format("{}", fmt::join(ranks, ","));
    const auto self = std::ranges::find(ranks, rank());
    if (self == ranks.end()) throw UsageError(fmt::format("communicator: rank {} makes a group of ranks {}", rank(), list));
    return std::make_unique<ThreadCommunicator>(Member{static_cast<int>(self - ranks.begin()), placement().part(ranks), waits_of_rank(), numbers_of(ranks)},
                                                exchange_, fmt::format("{}/{}#{}", name_, list, groups_[list]++));
  }
  SharedGroup* shared() override { return shared_.get(); }
  void wait_as(const WaitPolicy& policy) override {
    if (shared_) shared_->policy() = policy;
  }
  void abort(const std::string& why) override { exchange_->abort(why); }

 private:
  Transfer offer(const Way& way, Offer offer, const Participation::Message& message) {
    const auto mine = std::make_shared<Offer>(std::move(offer));
    exchange_->offer(way, mine);
    return Transfer(std::make_unique<ThreadTransfer>(exchange_, way, mine, *this, message));
  }
  void tell(int to, const Note& note) override { exchange_->tell({name_, to}, {rank(), note}); }
  std::optional<Heard> hear() override { return exchange_->hear({name_, rank()}); }

  std::shared_ptr<Exchange> exchange_;
  std::string name_;
  std::map<std::string, int> groups_;  // made so far, by their ranks
  std::unique_ptr<SharedGroup> shared_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> thread_communicators(int ranks, std::vector<std::string> hosts) {
  if (ranks < 1) throw UsageError(fmt::format("communicator: {} ranks; accepted: one or more", ranks));
  hosts.resize(at(ranks), hosts.empty() ? "localhost" : hosts.back());
  const auto exchange = std::make_shared<Exchange>();
  std::vector<int> all(at(ranks));
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::unique_ptr<Communicator>> out;
  const std::vector<AllowedCores> allowed(at(ranks), allowed_cores());
  const Placement placement = Placement::of(hosts, allowed);
  for (int r = 0; r < ranks; ++r)
    out.push_back(std::make_unique<ThreadCommunicator>(Communicator::Member{r, placement, std::make_shared<RankWaits>(exchange->abort_flag(), hosts), all},
                                                       exchange, "all"));
  return out;
}

void run_ranks(int ranks, const std::function<void(Communicator&)>& work, std::vector<std::string> hosts) {
  const auto communicators = thread_communicators(ranks, std::move(hosts));
  std::mutex mutex;
  std::exception_ptr first;
  {
    std::vector<std::jthread> threads;
    for (const auto& c : communicators)
      threads.emplace_back([&] {
        try {
          work(*c);
          c->goodbye();
        } catch (const std::exception& e) {
          {
            const std::lock_guard lock(mutex);
            if (!first) first = std::current_exception();
          }
          c->abort(fmt::format("rank {} failed: {}", c->rank(), worded(e)));
        }
      });
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace gemel::parallel
