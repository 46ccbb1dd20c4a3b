// The watch of ranks that are threads of this process, of a rank that is only played, and of ranks that are processes and are killed.
#include "parallel/watch/failure_detector.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <future>
#include <mutex>
#include <numeric>
#include <thread>

#include "engine/base/error.h"
#include "parallel/watch/addresses.h"
#include "parallel/watch/messages.h"
#include "tests/support/message_of.h"
#include "tests/support/ranks/failure_detector_support.h"

namespace gemel::parallel {
namespace {

using namespace std::chrono_literals;
using testing::message_of;
using MessageKind = WatchMessage::Kind;

/// What the callbacks of a rank were told.
class Told {
 public:
  FailureDetector::Callbacks callbacks() {
    return {[this](const Loss& loss) { add(losses_, loss); }, [this](const std::string& line) { add(warnings_, line); },
            [this](int rank, const std::string& text) { add(notes_, fmt::format("{}: {}", rank, text)); },
            [this](const Loss& loss) { add(departures_, loss); }};
  }
  Loss loss() { return wait(losses_, "loss"); }
  Loss departure() { return wait(departures_, "departure"); }
  std::string warning() { return wait(warnings_, "warning"); }
  std::string note() { return wait(notes_, "note"); }
  /// Whether there is a warning now or soon.
  bool warned_within(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return !warnings_.empty(); });
  }
  std::size_t losses() {
    const std::lock_guard lock(mutex_);
    return losses_.size();
  }
  std::size_t departures() {
    const std::lock_guard lock(mutex_);
    return departures_.size();
  }
  std::size_t warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Loss> losses_, departures_;
  std::deque<std::string> warnings_, notes_;

  template <class T>
  void add(std::deque<T>& to, const T& what) {
    const std::lock_guard lock(mutex_);
    to.push_back(what);
    changed_.notify_all();
  }
  /// Takes the first.
  template <class T>
  T wait(std::deque<T>& from, const char* what) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return !from.empty(); })) {
      ADD_FAILURE() << "no " << what;
      return {};
    }
    T first = std::move(from.front());
    from.pop_front();
    return first;
  }
};

/// The ranks of a job in threads of this process.
struct Job {
  std::vector<Told> told;  // outlives the watches
  std::vector<std::unique_ptr<FailureDetector>> watch;

  Job(int ranks, const WatchOptions& options) : told(static_cast<std::size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank)
      watch.push_back(std::make_unique<FailureDetector>(rank, host_names(ranks), options, told[static_cast<std::size_t>(rank)].callbacks()));
  }
  /// All but those of `without`, which are played.
  void connect(std::vector<int> without = {}) {
    std::vector<std::future<void>> connecting;
    for (int rank = 0; rank < std::ssize(watch); ++rank)
      if (std::find(without.begin(), without.end(), rank) == without.end())
        connecting.push_back(std::async(std::launch::async, [&one = at(rank), address = address()] { one.connect(address); }));
    for (std::future<void>& one : connecting) one.get();
  }
  std::string address() const { return watch.front()->address(); }
  FailureDetector& at(int rank) { return *watch[static_cast<std::size_t>(rank)]; }
  Told& told_at(int rank) { return told[static_cast<std::size_t>(rank)]; }
  void end(int rank) { watch[static_cast<std::size_t>(rank)].reset(); }
  std::size_t losses() {
    return std::accumulate(told.begin(), told.end(), std::size_t{0}, [](std::size_t sum, Told& one) { return sum + one.losses(); });
  }
};

Job connected_job(int ranks, const WatchOptions& options = {.heartbeat_s = kNoHeartbeat}) {
  Job job(ranks, options);
  job.connect();
  return job;
}

void expect_loss(const Loss& loss, int rank, const std::string& why, const std::vector<int>& ranks) {
  EXPECT_EQ(loss.rank, rank);
  EXPECT_EQ(loss.host, fmt::format("node-{}", rank));
  EXPECT_EQ(loss.why, why);
  EXPECT_EQ(loss.ranks, ranks);
}

/// A connection to rank 0 by hand.
class Played {
 public:
  explicit Played(const std::string& announced) : announced_(WatchAnnouncement::parse(announced)), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = ::htons(announced_.endpoints.front().port);
    to.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  }
  ~Played() { ::close(socket_); }
  Played(const Played&) = delete;
  Played& operator=(const Played&) = delete;

  const std::string& token() const { return announced_.token; }
  void say(const std::string& bytes) const { EXPECT_EQ(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes)); }
  void say(const WatchMessage& message) const { say(watch_frame(message)); }
  void join(int rank) const {
    say({.kind = MessageKind::hello, .rank = rank, .text = token()});
    say({.kind = MessageKind::join, .rank = rank});
  }
  /// Whether the other side closes it.
  bool dropped() const { return all_said().has_value(); }
  /// What the other side says until it closes it.
  std::optional<std::string> all_said() const {
    pollfd one{socket_, POLLIN, 0};
    std::string said;
    for (char bytes[256]; ::poll(&one, 1, 30'000) == 1;) {
      const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
      if (count <= 0) return said;
      said.append(bytes, static_cast<std::size_t>(count));
    }
    return std::nullopt;
  }

 private:
  WatchAnnouncement announced_;
  int socket_;
};

TEST(FailureDetector, goodbyes_in_any_order_are_no_loss) {
  std::vector<int> order = {0, 1, 2};
  do {
    Job job = connected_job(3);
    std::vector<std::future<void>> ending;
    for (const int rank : order) {
      ending.push_back(std::async(std::launch::async, [&job, rank] {
        job.at(rank).goodbye();
        job.end(rank);
      }));
      if (rank != 0) ending.back().get();
    }
    for (std::future<void>& one : ending)
      if (one.valid()) one.get();
    EXPECT_EQ(job.losses(), 0U);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(FailureDetector, ranks_that_go_on_after_rank_0_had_waited_lose_nobody) {
  Job job = connected_job(3);
  job.at(0).goodbye();
  job.end(0);
  job.end(1);
  job.at(2).goodbye();
  job.end(2);
  EXPECT_EQ(job.losses(), 0U);
}

TEST(FailureDetector, a_rank_that_ends_without_goodbye_is_lost_to_all_others) {
  for (const int lost : {0, 1, 3}) {
    Job job = connected_job(4);
    job.end(lost);
    for (int rank = 0; rank < 4; ++rank)
      if (rank != lost) expect_loss(job.told_at(rank).loss(), lost, kClosed, {});
    for (int rank = 0; rank < 4; ++rank)
      if (rank != lost) job.at(rank).goodbye();
    EXPECT_EQ(job.losses(), 0U) << "a loss was told twice";
  }
}

TEST(FailureDetector, an_error_of_one_rank_is_told_to_the_others) {
  for (const int failed : {0, 2}) {
    Job job = connected_job(3);
    const std::optional<Loss> loss = job.at(failed).report("softmax: axis 3 is out of range");
    if (loss) expect_loss(*loss, failed, "softmax: axis 3 is out of range", {failed});
    job.end(failed);
    for (int rank = 0; rank < 3; ++rank)
      if (rank != failed) expect_loss(job.told_at(rank).loss(), failed, "softmax: axis 3 is out of range", {failed});
    EXPECT_EQ(job.losses(), 0U);
  }
}

TEST(FailureDetector, an_error_of_all_ranks_is_one_loss) {
  Job job = connected_job(4);
  std::vector<std::future<std::optional<Loss>>> reports;
  for (int rank = 0; rank < 4; ++rank) reports.push_back(std::async(std::launch::async, [&job, rank] { return job.at(rank).report("too few samples"); }));
  std::vector<std::optional<Loss>> losses;
  for (auto& one : reports) losses.push_back(one.get());
  EXPECT_EQ(job.losses(), 0U) << "who reported is not called";
  ASSERT_TRUE(losses[0]);  // 0.2 s of the 0.3 s are left where all reported
  expect_loss(*losses[0], 0, "too few samples", {0, 1, 2, 3});
  EXPECT_EQ(describe(*losses[0], 4, 0, kStep), "too few samples");
}

// What played ranks say lies in the sockets before rank 0 begins to read: it comes at once, whatever else the machine does.

TEST(FailureDetector, of_several_errors_the_first_counts_with_all_ranks_that_reported_it) {
  Job job(4, {.heartbeat_s = kNoHeartbeat});
  const Played three(job.address()), two(job.address()), one(job.address());
  const std::pair<int, const Played*> played[] = {{3, &three}, {2, &two}, {1, &one}};
  for (const auto& [rank, who] : played) {
    who->join(rank);
    who->say({.kind = MessageKind::report, .text = rank == 2 ? "aborted" : "NaN in the gradient"});
  }
  job.connect({1, 2, 3});
  const Loss loss = job.told_at(0).loss();
  expect_loss(loss, 1, "NaN in the gradient", {1, 3});
  EXPECT_EQ(describe(loss, 4, 0, kStep), "ranks 1, 3 of 4: NaN in the gradient");
}

TEST(FailureDetector, a_rank_that_was_lost_is_named_before_the_errors_it_caused) {
  Job job(3, {.heartbeat_s = kNoHeartbeat});
  const Played one(job.address());
  one.join(1);
  one.say({.kind = MessageKind::report, .text = "all_reduce: broken pipe"});
  Played(job.address()).join(2);
  job.connect({1, 2});
  expect_loss(job.told_at(0).loss(), 2, kClosed, {});
}

TEST(FailureDetector, a_silent_rank_is_named_after_the_heartbeat) {
  Job job(3, {.heartbeat_s = 0.6});
  const Played silent(job.address());
  silent.join(2);
  const auto begun = std::chrono::steady_clock::now();
  job.connect({2});
  for (const int rank : {0, 1}) expect_loss(job.told_at(rank).loss(), 2, "has been silent for 0.6 s", {});
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 600ms);
}

TEST(FailureDetector, of_ranks_that_are_not_needed_those_that_fail_are_left_out_and_know_it) {
  Job job = connected_job(4);
  job.at(0).need_only(2);
  const std::optional<Loss> own = job.at(3).report("out of memory");
  if (own) expect_loss(*own, 3, "out of memory", {3});
  expect_loss(job.told_at(0).departure(), 3, "out of memory", {3});
  job.end(2);
  expect_loss(job.told_at(0).departure(), 2, kClosed, {});
  EXPECT_EQ(job.losses(), 0U) << "the others go on";
  const std::optional<Loss> needed = job.at(1).report("no space");
  if (needed) expect_loss(*needed, 1, "no space", {1});
  expect_loss(job.told_at(0).loss(), 1, "no space", {1});
}

TEST(FailureDetector, a_rank_that_was_given_up_is_told_its_own_loss) {
  Job job(3, {.heartbeat_s = 0.6});
  const Played silent(job.address());
  silent.join(2);
  job.connect({2});
  job.at(0).need_only(1);
  expect_loss(job.told_at(0).departure(), 2, "has been silent for 0.6 s", {});
  silent.say({.kind = MessageKind::beat, .rank = 2});
  const std::string said = silent.all_said().value_or(""), last = watch_frame({.kind = MessageKind::loss, .rank = 2, .text = "has been silent for 0.6 s"});
  EXPECT_TRUE(said.ends_with(last));
  EXPECT_EQ(job.losses(), 0U);
}

TEST(FailureDetector, nobody_is_lost_once_rank_0_has_parted) {
  Job job = connected_job(3);
  job.at(0).need_only(1);
  job.at(0).goodbye();
  job.end(1);
  job.end(2);
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(job.told_at(0).departures(), 0U);
}

TEST(FailureDetector, without_a_heartbeat_silence_is_no_failure) {
  Job job(2, {.heartbeat_s = 0, .stall_warning_s = 0.2});
  {
    const Played silent(job.address());
    silent.join(1);
    job.connect({1});
    EXPECT_EQ(job.told_at(0).warning(), "ranks 0, 1 of 2 have made no progress for 0.2 s");  // beats go on, one a second
    EXPECT_EQ(job.losses(), 0U);
  }
  expect_loss(job.told_at(0).loss(), 1, kClosed, {});
}

TEST(FailureDetector, a_stall_is_warned_of_once_by_rank_and_what_it_waits_for) {
  Job job = connected_job(3, {.heartbeat_s = 2, .stall_warning_s = 0.3});
  for (const int rank : {1, 2}) job.at(rank).waiting_for(kStep);
  const auto next_warning = [&] {  // while rank 0 moves on
    while (!job.told_at(0).warned_within(5ms)) job.at(0).progress();
    return job.told_at(0).warning();
  };
  EXPECT_EQ(next_warning(), "ranks 1, 2 of 3 have made no progress for 0.3 s; they wait for " + kStep);
  job.at(1).waiting_for("");
  job.at(1).progress();
  EXPECT_EQ(next_warning(), "rank 1 of 3 on node-1 has made no progress for 0.3 s");
  EXPECT_EQ(job.told_at(0).warnings() + job.told_at(1).warnings() + job.losses(), 0U);
}

TEST(FailureDetector, notes_of_a_rank_reach_rank_0_in_their_order_and_cut_where_they_are_long) {
  Job job = connected_job(3, {.heartbeat_s = kNoHeartbeat});
  job.at(2).note("first");
  job.at(2).note(std::string(2 * kWatchTextBytes, 'x'));
  EXPECT_EQ(job.told_at(0).note(), "2: first");
  EXPECT_EQ(job.told_at(0).note(), "2: " + std::string(kWatchTextBytes, 'x'));
  job.at(1).note("other");
  EXPECT_EQ(job.told_at(0).note(), "1: other");
  job.at(0).note("to itself is to nobody");
  EXPECT_EQ(job.told_at(0).warnings() + job.losses(), 0U);
}

TEST(FailureDetector, what_a_rank_waits_for_has_details_where_there_are_some) {
  std::string detail = "the gradient of fc.weight";
  FailureDetector watch(0, host_names(1), {}, {.detail = [&] { return detail; }});
  EXPECT_EQ(watch.waiting_for(), detail);
  watch.waiting_for("step 12");
  EXPECT_EQ(watch.waiting_for(), "step 12, the gradient of fc.weight");
  detail.clear();
  EXPECT_EQ(watch.waiting_for(), "step 12");
}

TEST(FailureDetector, strangers_and_garbage_are_dropped_without_harm) {
  Job job(2, {.heartbeat_s = kNoHeartbeat});
  const Played mute(job.address()), web(job.address()), huge(job.address()), wrong(job.address()), out_of_range(job.address()), early(job.address());
  web.say("GET / HTTP/1.1\r\nHost: node-0\r\n\r\n");
  huge.say(std::string("\xff\xff\xff\x7f") + "data");
  wrong.say({.kind = MessageKind::hello, .rank = 1, .text = random_token()});
  out_of_range.say({.kind = MessageKind::hello, .rank = 2, .text = out_of_range.token()});
  early.say({.kind = MessageKind::join, .rank = 1});
  std::future<void> connecting = std::async(std::launch::async, [&] { job.at(0).connect(job.address()); });
  for (const Played* stranger : {&web, &huge, &wrong, &out_of_range, &early}) EXPECT_TRUE(stranger->dropped());
  job.at(1).connect(job.address());
  connecting.get();
  EXPECT_TRUE(mute.dropped());
  job.end(1);
  expect_loss(job.told_at(0).loss(), 1, kClosed, {});
}

TEST(FailureDetector, a_rank_with_another_jobs_token_is_refused_and_says_where_it_tried) {
  Job job(2, {.heartbeat_s = kNoHeartbeat, .interface = "lo"});
  std::future<void> connecting = std::async(std::launch::async, [&] { job.at(0).connect(job.address()); });
  WatchAnnouncement other = WatchAnnouncement::parse(job.address());
  other.token = random_token();
  FailureDetector lost(1, host_names(2), {.heartbeat_s = kNoHeartbeat}, {});
  const std::string message = message_of<CommError>([&] { lost.connect(other.text()); });
  EXPECT_TRUE(message.starts_with("failure watch: rank 1 of 2 on node-1 does not reach rank 0 on node-0 at 127.0.0.1:")) << message;
  job.at(1).connect(job.address());
  connecting.get();
}

TEST(FailureDetector, ranks_that_do_not_meet_in_time_are_named_with_the_addresses) {
  Job job(3, {.heartbeat_s = kNoHeartbeat, .connect_s = 0.5, .interface = "lo"});
  const Played one(job.address());
  one.join(1);
  const std::string message = message_of<CommError>([&] { job.at(0).connect(job.address()); });
  EXPECT_TRUE(message.starts_with("failure watch: rank 2 of 3 on node-2 did not reach rank 0 on node-0 at any of 127.0.0.1:")) << message;
  EXPECT_TRUE(message.ends_with(" within 0.5 s")) << message;
  EXPECT_EQ(job.losses(), 0U) << "what connect throws is not told again";
}

TEST(FailureDetector, all_addresses_are_tried) {
  Job job(2, {.heartbeat_s = kNoHeartbeat, .connect_s = 0.5, .interface = "lo"});
  WatchAnnouncement announced = WatchAnnouncement::parse(job.address());
  announced.endpoints.insert(announced.endpoints.begin(), {{"127.0.0.1", 1}, {"no-address", 1}, {"::1", 1}});  // nothing answers there
  std::future<void> connecting = std::async(std::launch::async, [&] { job.at(0).connect(job.address()); });
  EXPECT_NO_THROW(job.at(1).connect(announced.text()));
  connecting.get();
  announced.endpoints.resize(1);
  FailureDetector lost(1, host_names(2), {.connect_s = 30}, {});
  EXPECT_EQ(message_of<CommError>([&] { lost.connect(announced.text()); }),
            "failure watch: rank 1 of 2 on node-1 does not reach rank 0 on node-0 at 127.0.0.1:1 (Connection refused); accepted: one address that answers "
            "within 30 s");
  for (const char* none : {"", "token", "token 127.0.0.1", "token 127.0.0.1:port", "token 127.0.0.1:70000"}) {
    FailureDetector watch(1, host_names(2), {}, {});
    EXPECT_THROW(watch.connect(none), CommError) << none;
  }
}

TEST(FailureDetector, an_interface_that_is_not_there_is_refused_with_those_that_are) {
  const std::string message = message_of<UsageError>([] { FailureDetector(0, host_names(2), {.interface = "eth77"}, {}); });
  EXPECT_TRUE(message.starts_with("interface: eth77 is not there on rank 0's host, or has no address; accepted: ")) << message;
  EXPECT_NE(message.find("lo"), std::string::npos) << message;
  FailureDetector watch(0, host_names(2), {.interface = "lo"}, {});
  for (const WatchEndpoint& endpoint : WatchAnnouncement::parse(watch.address()).endpoints)
    EXPECT_TRUE(endpoint.address.starts_with("127.") || endpoint.address == "::1") << endpoint.address;
}

TEST(FailureDetector, a_job_of_one_rank_watches_itself) {
  Job job = connected_job(1);
  const std::optional<Loss> loss = job.at(0).report("no data");
  ASSERT_TRUE(loss);
  EXPECT_EQ(describe(*loss, 1, 0, ""), "no data");
  job.at(0).goodbye();
}

TEST(FailureDetector, a_watch_that_never_connected_ends_without_waiting) {
  FailureDetector watch(0, host_names(3), {}, {});
  watch.progress();
  EXPECT_FALSE(watch.report("no device"));
  watch.goodbye();
}

TEST(FailureDetector, no_descriptor_is_left_open) {
  const auto open = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()); };
  const auto before = open();
  for (int round = 0; round < 3; ++round) {
    Job job = connected_job(4);
    job.end(round);
    job.told_at(3).loss();
  }
  EXPECT_EQ(open(), before);
}

TEST(FailureDetector, a_loss_is_described_in_one_line) {
  const Loss lost{2, "node-b", kClosed, {}};
  EXPECT_EQ(describe(lost, 4, 0, kStep), "rank 2 of 4 on node-b was lost: its connection closed; rank 0 waited for " + kStep);
  EXPECT_EQ(describe(lost, 4, 0, ""), "rank 2 of 4 on node-b was lost: its connection closed");
  EXPECT_EQ(describe({2, "node-b", "out of memory", {2}}, 4, 0, kStep), "rank 2 of 4 on node-b: out of memory");
  EXPECT_EQ(describe({1, "node-b", "out of memory", {1, 2, 3}}, 4, 0, kStep), "ranks 1, 2, 3 of 4: out of memory");
  EXPECT_EQ(describe({0, "node-a", "out of memory", {0, 1, 2, 3}}, 4, 0, kStep), "out of memory");
}

TEST(FailureDetector, messages_come_back_as_they_were_and_stay_within_their_bound) {
  std::vector<int> ranks(100'000);
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto back = [](const WatchMessage& message) { return parse_watch_message(watch_frame(message).substr(kWatchLengthBytes)); };
  const auto loss = back({.kind = MessageKind::loss, .rank = 7, .progress = 1ULL << 63 | 5, .ranks = {7, 9}, .text = "why"});
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->kind, MessageKind::loss);
  EXPECT_EQ(loss->rank, 7);
  EXPECT_EQ(loss->progress, 1ULL << 63 | 5);
  EXPECT_EQ(loss->ranks, (std::vector<int>{7, 9}));
  EXPECT_EQ(loss->text, "why");
  const std::string longest = watch_frame({.kind = MessageKind::loss, .ranks = ranks, .text = std::string(1 << 20, 'x')});
  EXPECT_LE(longest.size(), kWatchMessageBytes);
  EXPECT_EQ(watch_message_length(longest), longest.size() - kWatchLengthBytes);
  EXPECT_TRUE(parse_watch_message(std::string_view(longest).substr(kWatchLengthBytes)));
  EXPECT_FALSE(parse_watch_message(""));
  EXPECT_FALSE(parse_watch_message(std::string(17, '\x7f')));
}

}  // namespace
}  // namespace gemel::parallel
