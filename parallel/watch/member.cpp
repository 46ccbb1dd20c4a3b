// WatchMember: the failure detector of a rank other than 0, connected to rank 0.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <utility>

#include "engine/base/error.h"
#include "parallel/watch/hub_and_member.h"

namespace gemel::parallel {
namespace {

class WatchMember : public WatchSide {
 public:
  using WatchSide::WatchSide;

  void prepare(const std::string& announced) override { hub_at_ = WatchAnnouncement::parse(announced); }
  void fail(const std::string& error) override {
    if (open()) loop_.send(*hub_, {.kind = Kind::report, .rank = here_.rank, .text = error});
  }
  void note(const std::string& text) override {
    if (open()) loop_.send(*hub_, {.kind = Kind::note, .text = text});
  }
  void part() override {
    leaving_ = true;
    if (!open()) return parted();
    loop_.send(*hub_, {.kind = Kind::goodbye});
  }

  void opened(Peer peer) override { loop_.send(peer, {.kind = Kind::hello, .rank = here_.rank, .text = hub_at_.token}); }
  void message(Peer peer, const WatchMessage& message) override;
  void closed(Peer peer, const std::string& why) override;

 private:
  struct Attempt {
    std::string address;
    std::string failure = "no answer";
    bool over = false;
  };
  WatchAnnouncement hub_at_;
  std::map<Peer, Attempt> attempts_;  // all at once: some may never be answered
  bool connecting_ = true;
  Time begun_, heard_;
  std::optional<Peer> hub_;
  bool over_ = false;     // a loss was told
  bool leaving_ = false;  // said goodbye
  bool left_ = false;     // rank 0 said it

  /// Whether rank 0 is there, and it matters.
  bool open() const { return hub_ && !over_ && !left_; }

  void begin() override {
    begun_ = WatchClock::now();
    for (const WatchEndpoint& endpoint : hub_at_.endpoints) attempts_[loop_.connect(endpoint)].address = endpoint.text();
  }
  void beat(const WatchMessage& message) override {
    if (open()) loop_.send(*hub_, message);
  }
  void check(Time now) override {
    if (connecting_ && now - begun_ > watch_seconds(here_.options.connect_s)) give_up();
    if (open() && !leaving_ && silent(heard_, now)) {
      loop_.close(*std::exchange(hub_, std::nullopt));  // rank 0 may still hear this rank, and take it for well
      lose(silence_of(0));
    }
  }
  void restart(Time now) override { begun_ = heard_ = now; }

  void welcomed(Peer peer);
  void give_up();
  void lose(const Loss& loss) {
    over_ = true;
    tell(loss);
  }
};

void WatchMember::message(Peer peer, const WatchMessage& message) {
  if (connecting_) {
    if (message.kind == Kind::welcome && message.text == hub_at_.token) return welcomed(peer);
    loop_.close(peer);
    return closed(peer, "another program answers there");
  }
  heard_ = WatchClock::now();
  if (message.kind == Kind::loss && open()) {
    loop_.send(peer, {.kind = Kind::heard});
    if (!leaving_ && message.rank >= 0 && message.rank < here_.size()) lose({message.rank, here_.host(message.rank), message.text, message.ranks});
  } else if (message.kind == Kind::goodbye) {
    if (!leaving_) loop_.send(peer, {.kind = Kind::heard});
    left_ = true;
    if (leaving_) parted();
  }
}

void WatchMember::welcomed(Peer peer) {
  connecting_ = false;
  for (const auto& [other, attempt] : attempts_)
    if (other != peer) loop_.close(other);
  hub_ = peer;
  heard_ = WatchClock::now();
  loop_.trust(peer);
  loop_.send(peer, {.kind = Kind::join, .rank = here_.rank});
  here_.standing.set([](WatchStanding::Values& values) { values.connected = true; });
}

void WatchMember::closed(Peer peer, const std::string& why) {
  if (connecting_) {
    Attempt& attempt = attempts_[peer];
    attempt.failure = why;
    attempt.over = true;
    for (const auto& [other, one] : attempts_)
      if (!one.over) return;
    return give_up();
  }
  if (peer != hub_) return;
  const bool mattered = open() && !leaving_;
  hub_.reset();
  if (mattered)
    lose(end_of(0));
  else if (leaving_)
    parted();
}

void WatchMember::give_up() {
  connecting_ = false;
  std::vector<std::string> tried;
  for (const auto& [peer, attempt] : attempts_) {
    tried.push_back(fmt::format("{} ({})", attempt.address, attempt.failure));
    loop_.close(peer);
  }
  here_.standing.set([&](WatchStanding::Values& values) {
    values.failure = fmt::format("rank {} of {} on {} does not reach rank 0 on {} at {}; accepted: one address that answers within {:g} s", here_.rank,
                                 here_.size(), here_.host(here_.rank), here_.host(0), fmt::join(tried, ", "), here_.options.connect_s);
  });
}

}  // namespace

std::unique_ptr<WatchSide> make_watch_member(WatchRank& here, WatchLoop& loop) { return std::make_unique<WatchMember>(here, loop); }

}  // namespace gemel::parallel
