// WatchHub: the failure detector of rank 0, connected to each of the other ranks, which it tells what happens to the rest.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "engine/base/error.h"
#include "parallel/watch/hub_and_member.h"

namespace gemel::parallel {
namespace {

/// Rank 0 waits for so long for the goodbyes of the others, and then for them to hear its own.
constexpr double kPartSeconds = 1.7, kFarewellSeconds = 0.2;

class WatchHub : public WatchSide {
 public:
  /// @throws UsageError, CommError
  WatchHub(WatchRank& here, WatchLoop& loop);

  std::string address() const override { return announced_.text(); }
  void prepare(const std::string&) override {}
  void fail(const std::string& error) override { take_error(0, error.substr(0, kWatchTextBytes)); }
  void part() override;
  void need_only(int ranks) override { needed_ = ranks; }

  void opened(Peer) override {}
  void message(Peer peer, const WatchMessage& message) override;
  void closed(Peer peer, const std::string& why) override;

 private:
  struct Member {
    std::optional<Peer> peer;  // while its connection is open
    bool gone = false;         // said goodbye
    bool heard_all = false;    // the loss, or our goodbye
    Time heard, moved;         // its last message; its last progress
    std::uint64_t progress = 0;
    std::string waits;
    bool warned = false;  // of the stall it is in
  };
  WatchAnnouncement announced_;
  std::vector<Member> members_;     // [rank], 0 with no connection
  std::map<Peer, int> ranks_;       // of those that joined
  std::map<Peer, int> candidates_;  // welcomed: a rank may try several connections, and joins by one
  Time begun_;
  bool connected_ = false;
  int needed_ = here_.size();          // ranks from here on may be lost
  std::map<int, std::string> errors_;  // reported, by rank, while they are gathered
  std::string error_;                  // the first of them
  std::optional<Loss> loss_;           // declared
  bool over_ = false;                  // told here, or parted
  bool parting_ = false;

  Member& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }
  void send_all(const WatchMessage& message) {
    for (const Member& one : members_)
      if (one.peer && !one.gone) loop_.send(*one.peer, message);
  }
  bool all_heard() const {
    return std::all_of(members_.begin(), members_.end(), [](const Member& one) { return !one.peer || one.gone || one.heard_all; });
  }

  void begin() override;
  void beat(const WatchMessage& message) override {
    if (!over_) send_all(message);
  }
  void check(Time now) override;
  void restart(Time now) override;

  void admit(Peer peer, const WatchMessage& message);
  void join(Peer peer, int rank);
  void check_all_there();
  void take_error(int rank, const std::string& error);
  void declare_errors();
  void declare(const Loss& loss);
  void lose(const Loss& loss);
  void conclude();
  void check_parted();
  void farewell();
  void leave();
  void missing();
  void warn_of_stalls(Time now);
};

WatchHub::WatchHub(WatchRank& here, WatchLoop& loop) : WatchSide(here, loop), members_(here.hosts.size()) {
  const std::vector<std::string> addresses = addresses_of(here.options.interface);
  announced_.token = random_token();
  if (here.size() == 1) return;
  std::string failure;
  const std::uint16_t everywhere = here.options.interface.empty() ? loop.listen("") : std::uint16_t{0};
  for (const std::string& address : addresses) {
    try {
      announced_.endpoints.push_back({address, everywhere != 0 ? everywhere : loop.listen(address)});
    } catch (const CommError& error) {
      failure = error.what();
    }
  }
  if (announced_.endpoints.empty()) throw CommError(failure);
}

void WatchHub::begin() {
  restart(WatchClock::now());
  check_all_there();
}

void WatchHub::restart(Time now) {
  begun_ = now;
  for (Member& one : members_) one.heard = one.moved = now;
}

void WatchHub::message(Peer peer, const WatchMessage& message) {
  const auto known = ranks_.find(peer);
  if (known == ranks_.end()) return admit(peer, message);
  Member& from = member(known->second);
  from.heard = WatchClock::now();
  switch (message.kind) {
    case Kind::beat:
      from.waits = message.text;
      if (message.progress != from.progress) {
        from.progress = message.progress;
        from.moved = from.heard;
        from.warned = false;
      }
      break;
    case Kind::report:
      take_error(known->second, message.text);
      break;
    case Kind::note:
      if (here_.callbacks.on_note) here_.callbacks.on_note(known->second, message.text);
      break;
    case Kind::heard:
      from.heard_all = true;
      if (all_heard()) conclude();
      break;
    case Kind::goodbye:
      from.gone = true;
      loop_.send(peer, {.kind = Kind::goodbye});
      if (all_heard()) conclude();
      check_parted();
      break;
    default:
      break;
  }
}

/// A stranger says who it is, or is dropped.
void WatchHub::admit(Peer peer, const WatchMessage& message) {
  const auto candidate = candidates_.find(peer);
  const bool hello = candidate == candidates_.end() && message.kind == Kind::hello && message.text == announced_.token && message.rank > 0 &&
                     message.rank < here_.size() && !connected_;
  if (hello) {
    candidates_[peer] = message.rank;
    return loop_.send(peer, {.kind = Kind::welcome, .text = announced_.token});
  }
  const int rank = candidate == candidates_.end() ? 0 : candidate->second;
  candidates_.erase(peer);
  if (rank > 0 && message.kind == Kind::join && !connected_ && !over_ && !member(rank).peer)
    join(peer, rank);
  else
    loop_.close(peer);
}

void WatchHub::join(Peer peer, int rank) {
  Member& one = member(rank);
  one.peer = peer;
  one.heard = one.moved = WatchClock::now();
  ranks_[peer] = rank;
  loop_.trust(peer);
  check_all_there();
}

void WatchHub::check_all_there() {
  if (loss_ || std::any_of(members_.begin() + 1, members_.end(), [](const Member& one) { return !one.peer; })) return;
  connected_ = true;
  loop_.stop_listening();
  candidates_.clear();
  restart(WatchClock::now());
  here_.standing.set([](WatchStanding::Values& values) { values.connected = true; });
}

void WatchHub::closed(Peer peer, const std::string&) {
  candidates_.erase(peer);
  const auto known = ranks_.find(peer);
  if (known == ranks_.end()) return;
  const int rank = known->second;
  ranks_.erase(known);
  member(rank).peer.reset();
  // Before others that failed meanwhile: who reports waits for the answer, so this end is no consequence of theirs.
  if (!member(rank).gone && !errors_.contains(rank)) lose(end_of(rank));
  if (all_heard()) conclude();
  check_parted();
}

void WatchHub::take_error(int rank, const std::string& error) {
  if (loss_ || over_) return;
  if (errors_.empty()) {
    error_ = error;
    loop_.after(watch_seconds(kGatherSeconds), [this] { declare_errors(); });
  }
  errors_.try_emplace(rank, error);
  if (errors_.size() == members_.size()) declare_errors();
}

/// Where only ranks that are not needed failed, the others go on without them.
void WatchHub::declare_errors() {
  if (loss_ || over_) return;
  if (errors_.begin()->first >= needed_) {
    for (const auto& [rank, error] : std::exchange(errors_, {})) lose({rank, here_.host(rank), error, {rank}});
    return;
  }
  Loss loss{0, "", error_, {}};
  for (const auto& [rank, error] : errors_)
    if (error == error_) loss.ranks.push_back(rank);
  loss.rank = loss.ranks.front();
  loss.host = here_.host(loss.rank);
  declare(loss);
}

void WatchHub::lose(const Loss& loss) {
  if (loss_ || over_) return;
  if (loss.rank < needed_) return declare(loss);
  Member& one = member(loss.rank);
  one.gone = true;
  if (one.peer) {  // it failed, or is silent: should it speak again it is a stranger, which knows why
    loop_.send(*one.peer, {.kind = Kind::loss, .rank = loss.rank, .ranks = loss.ranks, .text = loss.why});
    ranks_.erase(*one.peer);
    one.peer.reset();
  }
  if (here_.callbacks.on_departure) here_.callbacks.on_departure(loss);
  check_parted();
}

/// The others hear of it first: the callback may end this process.
void WatchHub::declare(const Loss& loss) {
  if (loss_ || over_) return;
  loss_ = loss;
  here_.standing.set([&](WatchStanding::Values& values) { values.loss = loss; });
  for (Member& one : members_) one.heard_all = false;
  member(loss.rank).heard_all = loss.ranks.empty();  // a lost one will not answer
  send_all({.kind = Kind::loss, .rank = loss.rank, .ranks = loss.ranks, .text = loss.why});
  loop_.after(watch_seconds(kHeardSeconds), [this] { conclude(); });
  if (all_heard()) conclude();
}

void WatchHub::conclude() {
  if (loss_ && !std::exchange(over_, true)) tell(*loss_);
  if (parting_ && over_ && all_heard()) parted();
}

void WatchHub::part() {
  parting_ = true;
  loop_.after(watch_seconds(kPartSeconds), [this] { farewell(); });
  check_parted();
}

void WatchHub::check_parted() {
  if (parting_ && !loss_ && errors_.empty() && std::all_of(members_.begin(), members_.end(), [](const Member& one) { return !one.peer || one.gone; })) leave();
}

void WatchHub::leave() {
  over_ = true;
  parted();
}

void WatchHub::farewell() {
  if (over_ || loss_) return;
  over_ = true;
  for (Member& one : members_) one.heard_all = false;
  send_all({.kind = Kind::goodbye});
  loop_.after(watch_seconds(kFarewellSeconds), [this] { parted(); });
}

void WatchHub::check(Time now) {
  if (loss_ || over_) return;
  if (!connected_) {
    if (now - begun_ > watch_seconds(here_.options.connect_s)) missing();
    return;
  }
  for (int rank = 1; rank < here_.size(); ++rank) {
    const Member& one = member(rank);
    if (one.peer && !one.gone && silent(one.heard, now)) return lose(silence_of(rank));
  }
  if (here_.options.stall_warning_s > 0 && !parting_) warn_of_stalls(now);
}

void WatchHub::missing() {
  std::vector<std::string> tried;
  for (const WatchEndpoint& endpoint : announced_.endpoints) tried.push_back(endpoint.text());
  int rank = 1;
  while (member(rank).peer) ++rank;
  const std::string why = fmt::format("did not reach rank 0 on {} at any of {} within {:g} s", here_.host(0), fmt::join(tried, ", "), here_.options.connect_s);
  declare({rank, here_.host(rank), why, {}});
}

/// Ranks that stand still for the same reason share a line: the warning comes one beat late, so that all of them are known by then.
void WatchHub::warn_of_stalls(Time now) {
  Member& own = member(0);
  own.heard = now;
  own.waits = here_.waits();
  if (const std::uint64_t progress = here_.progress.load(std::memory_order_relaxed); progress != own.progress) {
    own.progress = progress;
    own.moved = now;
    own.warned = false;
  }
  const auto limit = watch_seconds(here_.options.stall_warning_s), beat = watch_seconds(beat_s());
  bool due = false;
  std::map<std::string, std::vector<int>> stalled;  // by what they wait for
  for (int rank = 0; rank < here_.size(); ++rank) {
    const Member& one = member(rank);
    if (one.warned || one.gone || now - one.moved < limit || now - one.heard > 3 * beat) continue;
    due = due || now - one.moved >= limit + beat;
    stalled[one.waits].push_back(rank);
  }
  if (!due) return;
  for (const auto& [waits, ranks] : stalled) {
    const bool one = ranks.size() == 1;
    const std::string who = one ? fmt::format("rank {} of {} on {} has", ranks.front(), here_.size(), here_.host(ranks.front()))
                                : fmt::format("ranks {} of {} have", fmt::join(ranks, ", "), here_.size());
    const std::string what = waits.empty() ? "" : fmt::format("; {} for {}", one ? "it waits" : "they wait", waits);
    for (const int rank : ranks) member(rank).warned = true;
    if (here_.callbacks.on_warning) here_.callbacks.on_warning(fmt::format("{} made no progress for {:g} s{}", who, here_.options.stall_warning_s, what));
  }
}

}  // namespace

std::unique_ptr<WatchSide> make_watch_hub(WatchRank& here, WatchLoop& loop) { return std::make_unique<WatchHub>(here, loop); }

}  // namespace gemel::parallel
