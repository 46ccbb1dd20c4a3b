#include "parallel/transport/uneven_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel::parallel {
namespace {

/// Whether a rank's end of it shows that all ranks have begun it.
bool waits_for_all(Call::Kind kind) { return kind != Call::Kind::broadcast && kind != Call::Kind::reduce && kind != Call::Kind::memory; }

/// Whether it cannot be without data of that rank.
bool needs(const Call& call, int rank) { return call.kind == Call::Kind::memory || (call.kind == Call::Kind::broadcast && call.root == rank); }

std::string text_of(const Place& place, const char* before, const char* counted) {
  if (place.step > 0) return fmt::format("{} step {}", before, place.step);
  return fmt::format("{} {} {}", before, counted, place.count);
}

}  // namespace

const char* to_string(Call::Kind kind) {
  switch (kind) {
    case Call::Kind::all_reduce:
      return "all-reduce";
    case Call::Kind::broadcast:
      return "broadcast";
    case Call::Kind::reduce:
      return "reduce";
    case Call::Kind::all_gather:
      return "all-gather";
    case Call::Kind::reduce_scatter:
      return "reduce-scatter";
    case Call::Kind::all_to_all:
      return "all-to-all";
    case Call::Kind::barrier:
      return "barrier";
    case Call::Kind::memory:
      return "memory that ranks share";
  }
  return "";
}

std::string has_ended(int rank, const std::vector<std::string>& hosts, const Place& ended, const Place& here, const char* counted) {
  const std::string after = ended.step == 0 && (here.step > 0 || ended.count == 0) ? fmt::format("before its first {}", here.step > 0 ? "step" : counted)
                                                                                   : text_of(ended, "after", counted);
  return fmt::format("rank {} of {} on {} has ended ({}); this rank is {}", rank, hosts.size(), hosts[at(rank)], after, text_of(here, "at", counted));
}

void RankWaits::check() const {
  abort_.check();
  for (Participation* const participation : of_) participation->look();
}

Participation::Participation(Notes& notes, std::shared_ptr<RankWaits> waits, int rank, std::vector<int> ranks)
    : notes_(notes), waits_(std::move(waits)), rank_(rank), ranks_(std::move(ranks)), peers_(ranks_.size()) {
  waits_->of_.push_back(this);
}

Participation::~Participation() { std::erase(waits_->of_, this); }

Participation::Round::Round(Participation& participation, const Call& call)
    : participation_(participation), outermost_(participation.depth_++ == 0), exceptions_(std::uncaught_exceptions()) {
  if (!outermost_ || participation.size() == 1) return;
  participation.broken_ = false;
  participation.calls_.emplace_back(++participation.round_, call);
  for (int r = 0; r < participation.size(); ++r)
    if (r != participation.rank_ && participation.peer(r).joined) participation.tell_calls(r);
}

Participation::Round::~Round() {
  --participation_.depth_;
  if (!outermost_ || participation_.size() == 1) return;
  if (std::uncaught_exceptions() > exceptions_)
    participation_.broken_ = true;
  else if (waits_for_all(participation_.calls_.back().second.kind))
    participation_.calls_.clear();
}

std::vector<int> Participation::numbers_of(std::span<const int> ranks) const {
  std::vector<int> out;
  for (const int r : ranks) out.push_back(ranks_[at(r)]);
  return out;
}

int Participation::givers() const {
  return static_cast<int>(std::ranges::count_if(peers_, [this](const Peer& p) { return !p.joined || p.joined->round >= round_; }));
}

void Participation::end() {
  std::erase(waits_->of_, this);
  if (std::exchange(has_ended_, true) || waits_->aborted()) return;
  Note note{.kind = Note::Kind::ended, .round = broken_ ? round_ - 1 : round_};
  if (because_of_ >= 0 && peer(because_of_).ended) {
    note.because_of = because_of_;
    note.round_of_cause = peer(because_of_).ended->round;
    note.step_of_cause = peer(because_of_).ended->step;
  }
  tell_all(note);
}

bool Participation::all_ended() {
  listen();
  for (int r = 0; r < size(); ++r)
    if (r != rank_ && !peer(r).ended) return false;
  return true;
}

void Participation::join() {
  Note note{.kind = Note::Kind::joined, .round = round_};
  peer(rank_).joined = note;
  tell_all(note);
}

std::optional<Call> Participation::next_call() {
  std::optional<Call> out;
  const auto ready = [&] {
    listen();
    if (can_take_part(round_ + 1)) out = described_.at(round_ + 1).call;
    return out || std::ranges::all_of(peers_, [this](const Peer& p) { return p.joined && p.joined->round <= round_; });
  };
  joining_ = true;
  try {
    poll_until(ready, {.spin_ns = 0}, *waits_);
  } catch (...) {
    joining_ = false;
    throw;
  }
  joining_ = false;
  described_.erase(described_.begin(), described_.upper_bound(round_));
  return out;
}

/// Once all that give data have said what it is, they know, too, that this rank gives none.
bool Participation::can_take_part(std::int64_t round) const {
  const auto found = described_.find(round);
  if (found == described_.end()) return false;
  const auto& [call, by] = found->second;
  if (call.kind == Call::Kind::broadcast) return true;  // its root may be through, and have ended
  if (call.kind == Call::Kind::reduce) return by.contains(call.root) || call.root == rank_ || peers_[at(call.root)].joined;
  for (int r = 0; r < size(); ++r) {
    const Peer& p = peers_[at(r)];
    if (r != rank_ && !by.contains(r) && !(p.joined && p.joined->round < round)) return false;
  }
  return true;
}

int Participation::all_joined() {
  int last = 0;
  for (int r = 1; r < size(); ++r)
    if (peer(r).joined->round >= peer(last).joined->round) last = r;
  for (Peer& p : peers_) {
    p.joined.reset();
    p.told = 0;
  }
  described_.clear();
  return last;
}

void Participation::tell_all(Note note) {
  note.step = waits_->step_;
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    note.sent = peer(r).sends;
    note.received = peer(r).receives;
    notes_.tell(r, note);
  }
}

/// What a rank that has joined has not begun.
void Participation::tell_calls(int to) {
  Peer& p = peer(to);
  for (const auto& [number, call] : calls_) {
    if (number <= std::max(p.joined->round, p.told)) continue;
    if (needs(call, to)) return;
    notes_.tell(to, {.kind = Note::Kind::call, .round = number, .call = call});
    p.told = number;
  }
}

void Participation::take(int from, const Note& note) {
  Peer& p = peer(from);
  switch (note.kind) {
    case Note::Kind::ended:
      p.ended = note;
      if (note.because_of >= 0 && note.because_of != rank_ && !peer(note.because_of).ended)  // it was told first, by another way
        peer(note.because_of).ended =
            Note{.round = note.round_of_cause, .step = note.step_of_cause, .sent = peer(note.because_of).receives, .received = peer(note.because_of).sends};
      break;
    case Note::Kind::joined:
      p.joined = note;
      tell_calls(from);
      break;
    case Note::Kind::call: {
      if (note.round <= round_) break;  // this rank is in it, or behind it
      Described& described = described_[note.round];
      described.call = note.call;
      described.by.insert(from);
      break;
    }
  }
}

void Participation::listen() {
  while (const std::optional<Notes::Heard> heard = notes_.hear()) take(heard->from, heard->note);
}

/// Whether that rank, which does no more than its note says, lacks in what this one waits for.
bool Participation::lacks(int rank) const {
  const Peer& p = peers_[at(rank)];
  if (depth_ > 0) return p.ended && p.ended->round < round_;
  if (joining_) return p.ended && p.ended->round <= round_;
  if (!awaited_ || awaited_->peer != rank) return false;
  const auto misses = [this](const std::optional<Note>& note) { return note && (awaited_->sent ? note->received : note->sent) < awaited_->number; };
  return misses(p.ended) || misses(p.joined);
}

void Participation::look() {
  listen();
  int lacking = -1;  // one that others waited for rather than one that waited
  for (int r = 0; r < size(); ++r)
    if (r != rank_ && lacks(r) && (lacking < 0 || (peer(lacking).ended && peer(lacking).ended->because_of >= 0))) lacking = r;
  if (lacking >= 0) refuse(lacking);
  for (int r = 0; depth_ > 0 && r < size(); ++r)
    if (peer(r).joined && peer(r).joined->round < round_ && needs(calls_.back().second, r))
      throw CommError(
          fmt::format("{}: rank {} has joined, and is needed; accepted: behind join() on every rank", to_string(calls_.back().second.kind), ranks_[at(r)]));
}

void Participation::refuse(int rank) {
  because_of_ = rank;
  const Peer& p = peers_[at(rank)];
  const bool in_messages = depth_ == 0 && !joining_;
  std::string what = joining_ ? "join" : in_messages ? awaited_->sent ? "send" : "receive" : to_string(calls_.back().second.kind);
  if (const std::string doing = !joining_ && waits_->doing_ ? waits_->doing_() : ""; !doing.empty()) what += (doing.starts_with("the ") ? " of " : " ") + doing;
  if (!p.ended)
    throw CommError(fmt::format("{}: rank {} of {} on {} has joined, and sends and receives no messages of its own; accepted: behind join() on every rank",
                                what, ranks_[at(rank)], waits_->hosts_.size(), waits_->hosts_[at(ranks_[at(rank)])]));
  const Place ended{p.ended->step, p.ended->round}, here{waits_->step_, std::max<std::int64_t>(1, round_)};
  throw CommError(what + ": " + has_ended(ranks_[at(rank)], waits_->hosts_, ended, here, "collective") +
                  (in_messages ? "; accepted: as many steps on every rank" : kAcceptedOfUneven));
}

}  // namespace gemel::parallel
