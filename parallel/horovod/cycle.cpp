// A cycle: ranks find the requests that all have made by one exchange of bits, and negotiate requests that are new; then they carry them out.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "parallel/horovod/operations.h"

namespace gemel::parallel::horovod {
namespace {

using Clock = Turns::Clock;

// The first word: whether the rank has nothing to negotiate, and as many ones behind it as work can start. `and` gives the least.
constexpr std::uint64_t kNothingFresh = 1;
constexpr std::size_t kMostWork = 63;
constexpr std::size_t kBitsOfWord = 64;

Clock::duration milliseconds(double ms) { return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(ms)); }
Clock::duration seconds(double s) { return milliseconds(1e3 * s); }

/// A rank that has nothing to do takes part as often, so that others learn in time whom they wait for, and who has ended.
Clock::duration idle(const Options& options) { return seconds(options.stall_warning_s > 0 ? std::min(0.25, options.stall_warning_s / 4) : 0.25); }

}  // namespace

Turns::Clock::time_point NamedCollectives::due(const Work& work) {
  bool has_work = work.queued > 0 || !pending_.empty();
  if (!has_work) {
    const std::lock_guard lock(mutex_);
    has_work = !arrived_.empty();
  }
  // A cycle is waited for so that more ranks, and more tensors at once, come together: one rank alone has nothing to gain by it.
  if (has_work && size() == 1 && work.startable == work.queued) return last_;
  return last_ + (has_work ? milliseconds(options_.cycle_ms) : idle(options_));
}

std::size_t NamedCollectives::turn(Collectives& c, std::size_t startable) {
  take_arrived();
  timeline_.mark_cycle();
  Message message;
  Words words = bits_of_mine(startable, message);
  std::vector<Ready> ready;
  {
    const CommunicationThread::Doing doing(communication_, waiting_for());
    c.all_reduce({reinterpret_cast<std::byte*>(words.data()), std::ssize(words), DType::int64}, Reduction::bit_and);
    ready = common(words);
    const bool negotiates = !(words[0] & kNothingFresh);
    if (negotiates) negotiate(c, message);
    for (const Ready& r : ready) coordinator_.forget(r.request.name);  // of what was overdue the ranks were told
    for (Ready& r : coordinator_.take_ready()) ready.push_back(std::move(r));
    add_never_asked(ready);
    const std::lock_guard lock(mutex_);
    ++statistics_.cycles;
    ++statistics_.bit_exchanges;
    statistics_.negotiations += negotiates;
  }
  carry_out(c, ready);
  last_ = Clock::now();
  return at(std::popcount(words[0] >> 1));
}

void NamedCollectives::take_arrived() {
  const std::lock_guard lock(mutex_);
  for (Pending& p : arrived_) {
    const std::string name = p.request.name;
    pending_.insert_or_assign(name, std::move(p));
  }
  arrived_.clear();
  if (over_) ends_ = {communication_.step(), static_cast<std::int64_t>(asked_)};
}

/// "the gradient of fc.weight" where that is what was asked for first.
std::string NamedCollectives::waiting_for() const {
  if (pending_.empty()) return {};
  const auto first = std::ranges::min_element(pending_, {}, [](const auto& p) { return p.second.number; });
  return pending_.size() == 1 ? first->first : fmt::format("{} and {} more", first->first, pending_.size() - 1);
}

/// The others are told in words what it has asked for, as it gives data to that alone.
bool NamedCollectives::leaves() const {
  if (ends_) return !told_end_;
  return std::ranges::any_of(pending_, [](const auto& p) { return p.second.request.operation == Operation::join && !p.second.told; });
}

/// Of which a member is not agreed on: the others are told in words with it, as only what comes by one way is counted together.
std::set<std::string> NamedCollectives::groups_to_agree_on() const {
  std::set<std::string> out;
  for (const auto& [name, p] : pending_)
    if (!p.request.group.empty() && cache_.find(p.request) != ResponseCache::Found::same) out.insert(p.request.group);
  return out;
}

/// A request that has the form that the ranks agreed on is a bit, any other is told in words.
NamedCollectives::Words NamedCollectives::bits_of_mine(std::size_t startable, Message& message) {
  Words words(1 + (cache_.capacity() + kBitsOfWord - 1) / kBitsOfWord, has_joined() ? ~std::uint64_t{0} : 0);
  const auto now = Clock::now();
  const bool is_last = leaves();
  std::map<std::size_t, Pending*> fresh, overdue;  // in the order in which they were asked for
  const std::set<std::string> not_agreed = groups_to_agree_on();
  for (auto& [name, p] : pending_) {
    if (cache_.find(p.request) == ResponseCache::Found::same && !not_agreed.contains(p.request.group)) {
      const std::size_t bit = cache_.bit(name);
      words[1 + bit / kBitsOfWord] |= std::uint64_t{1} << bit % kBitsOfWord;
      const bool is_late = options_.stall_warning_s > 0 && now - p.since > seconds(options_.stall_warning_s);
      if ((is_late || is_last) && !std::exchange(p.told_overdue, true)) overdue.emplace(p.number, &p);
      p.told = false;
    } else if (!std::exchange(p.told, true)) {
      fresh.emplace(p.number, &p);
    }
  }
  for (const auto& [number, p] : fresh) message.fresh.push_back(p->request);
  for (const auto& [number, p] : overdue) message.overdue.push_back(p->request);
  if (ends_ && !std::exchange(told_end_, true)) message.ends = ends_;
  message.packing_bytes = fusion_.wanted_bytes();
  if (rank() == 0) add_decisions(message);
  const bool nothing =
      message.fresh.empty() && message.overdue.empty() && !message.ends && message.packing_bytes == 0 && !message.tuned && message.give_up.empty();
  words[0] = (nothing ? kNothingFresh : 0) | ((std::uint64_t{1} << std::min(startable, kMostWork)) - 1) << 1;
  return words;
}

std::vector<NamedCollectives::Ready> NamedCollectives::common(const Words& words) const {
  std::vector<Ready> out;
  for (std::size_t w = 1; w < words.size(); ++w)
    for (std::uint64_t left = words[w]; left; left &= left - 1) {
      const Request& r = cache_.at_bit((w - 1) * kBitsOfWord + at(std::countr_zero(left)));
      const auto it = pending_.find(r.name);
      out.push_back({it == pending_.end() ? r : it->second.request, coordinator_.refusal(r), coordinator_.givers(r.name)});
    }
  return out;
}

/// What this rank has said by bits, of which the others know nothing.
void NamedCollectives::add_never_asked(std::vector<Ready>& ready) const {
  if (coordinator_.ended().empty() || ends_) return;
  std::set<std::string_view> answered;
  for (const Ready& r : ready) answered.insert(r.request.name);
  std::vector<Ready> more;
  for (const auto& [name, p] : pending_)
    if (const int never = coordinator_.never_asks(name); never >= 0 && p.request.operation != Operation::join && !answered.contains(name))
      more.push_back({p.request, "", 0, never});
  std::ranges::move(more, std::back_inserter(ready));
}

/// Every rank hears all, so that all come to the same answer.
void NamedCollectives::negotiate(Collectives& c, const Message& mine) {
  const auto bytes = packed(mine);
  const auto all = c.all_gather(bytes);
  const auto now = Clock::now();
  const auto late = now - seconds(options_.stall_warning_s);
  std::int64_t packing_bytes = 0;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const Message m = unpacked(all[r]);
    packing_bytes = std::max(packing_bytes, m.packing_bytes);
    const bool is_last = m.ends || std::ranges::any_of(m.fresh, [](const Request& q) { return q.operation == Operation::join; });
    for (const Request& request : m.overdue) coordinator_.add(static_cast<int>(r), request, is_last ? now : late);
    if (m.ends) coordinator_.end(static_cast<int>(r), *m.ends);
    for (const Request& request : m.fresh) {
      cache_.erase(request.name);
      coordinator_.add(static_cast<int>(r), request, now);
    }
    if (m.tuned) {
      options_.fusion_bytes = m.tuned->fusion_bytes;
      options_.cycle_ms = m.tuned->cycle_ms;
      const std::lock_guard lock(mutex_);
      statistics_.tuned = *m.tuned;
    }
    if (!m.give_up.empty()) throw CommError(m.give_up);
  }
  if (packing_bytes > 0) fusion_.share(c, packing_bytes);
}

/// What rank 0 measures, and so decides for all.
void NamedCollectives::add_decisions(Message& message) {
  message.tuned = std::exchange(news_, std::nullopt);
  const auto now = Clock::now();
  if (options_.stall_warning_s <= 0 || now - looked_for_stalls_ < idle(options_)) return;
  looked_for_stalls_ = now;
  for (const Coordinator::Waiting& w : coordinator_.waiting_since(now - seconds(options_.stall_warning_s))) {
    std::string missing;
    for (const int r : w.missing) missing += fmt::format("{}rank {} ({})", missing.empty() ? "" : ", ", r, communication_.placement().hosts[at(r)]);
    const double waited = std::chrono::duration<double>(now - w.since).count();
    const std::string line = fmt::format("horovod: {} has waited {:.0f} s for {}", w.name, waited, missing);
    if (options_.stall_shutdown_s > 0 && waited > options_.stall_shutdown_s)
      message.give_up = line + fmt::format("; the limit of HOROVOD_STALL_SHUTDOWN_TIME_SECONDS is {:g}", options_.stall_shutdown_s);
    auto& warned = warned_[w.name];
    if (warned != Clock::time_point() && now - warned < seconds(options_.stall_warning_s)) continue;
    warned = now;
    if (warn_) warn_(line);
    const std::lock_guard lock(mutex_);
    ++statistics_.stall_warnings;
  }
}

}  // namespace gemel::parallel::horovod
