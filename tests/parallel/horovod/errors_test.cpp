// What Horovod's cycles refuse, whom they wait for, and how they end, on ranks that are threads of this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "tests/support/message_of.h"
#include "tests/support/ranks/horovod_ranks.h"
#include "tests/support/temporary_folder.h"

namespace gemel::parallel::horovod {
namespace {

using namespace gemel::testing;

Tensor scalar_of(float& value) { return {host_buffer(std::as_writable_bytes(std::span(&value, 1))), Shape{}, DType::float32}; }

TEST(CommunicationThread, tells_its_turns_of_a_failure_before_it_answers_the_work_behind) {
  struct AllAtOnce : Turns {
    Clock::time_point due(const Work& work) override { return work.queued == 2 ? Clock::time_point() : Clock::time_point::max(); }
    std::size_t turn(Collectives&, std::size_t startable) override { return startable; }
    void failed(const std::exception_ptr&) override { answered_before = behind.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
    std::shared_future<void> behind;
    std::optional<bool> answered_before;
  };
  run_communicating_ranks(1, [](CommunicationThread& communication) {
    AllAtOnce turns;
    std::promise<void> made;
    communication.run([&](Collectives&) { communication.take_turns(&turns); });
    auto fails = communication.submit([made = made.get_future().share()](Collectives&) {
      made.wait();
      throw CommError("failed");
    });
    turns.behind = communication.submit([](Collectives&) {}).share();
    made.set_value();
    EXPECT_THROW(fails.get(), CommError);
    EXPECT_THROW(turns.behind.get(), CommError);
    EXPECT_EQ(turns.answered_before, std::optional(false));
  });
}

TEST(Horovod, may_be_shut_down_directly_behind_work_that_fails) {
  std::atomic<int> told = 0;
  run_communicating_ranks(2, [&](CommunicationThread& communication) {
    Floats a(4, 1.0f);
    std::optional<Handle> alone;
    {
      NamedCollectives h(communication, quick());
      if (h.rank() == 0) alone = h.all_reduce("alone", tensor_of(a));
      auto fails = communication.submit([](Collectives&) { throw CommError("failed"); });
      EXPECT_EQ(message_of<CommError>([&] { h.shutdown(); }), "failed");
      EXPECT_THROW(fails.get(), CommError);
    }
    if (!alone) return;
    const std::string said = message_of<CommError>([&] { alone->synchronize(); });
    told += said == "failed" || said.starts_with("all-reduce alone: rank 1 of 2 on localhost has ended");  // as rank 1 may be the first to shut down
  });
  EXPECT_EQ(told, 1);
}

TEST(Horovod, answers_what_is_asked_for_while_communication_ends) {
  std::atomic<int> told = 0;
  const int times = 20;
  for (int i = 0; i < times; ++i)
    run_communicating_ranks(1, [&](CommunicationThread& communication) {
      NamedCollectives h(communication, {.cycle_ms = 0});
      Floats a{1};
      auto fails = communication.submit([](Collectives&) { throw CommError("failed"); });
      told += message_of<CommError>([&] {
                for (;;) h.all_reduce("a", tensor_of(a)).synchronize();
              }) == "failed";
      EXPECT_THROW(fails.get(), CommError);
    });
  EXPECT_EQ(told, times);
}

/// What every rank is told where ranks ask for different things, and that communication goes on.
template <class Ask>
void expect_refused(const std::string& text, const Ask& ask) {
  run_horovod(2, quick(), [&](NamedCollectives& h) {
    Floats values(6, 1.0f);
    EXPECT_EQ(message_of<CommError>([&] { ask(h, values).synchronize(); }), text);
    Floats a{1};
    h.all_reduce("next", tensor_of(a)).synchronize();
    EXPECT_EQ(a[0], 1);
  });
}

TEST(Horovod, tells_every_rank_how_requests_of_one_name_differ) {
  expect_refused("horovod: x: the shape differs: [6] on rank 0, [2, 3] on rank 1; accepted: the same on every rank", [](NamedCollectives& h, Floats& v) {
    return h.all_reduce("x", {tensor_of(v).buffer, h.rank() ? Shape{2, 3} : Shape{6}, DType::float32});
  });
  expect_refused("horovod: x: the shape differs: [] on rank 0, [1] on rank 1; accepted: the same on every rank", [](NamedCollectives& h, Floats& v) {
    v.resize(1);
    return h.all_reduce("x", h.rank() ? tensor_of(v) : scalar_of(v[0]));
  });
  expect_refused("horovod: x: the type differs: float32 on rank 0, int32 on rank 1; accepted: the same on every rank", [](NamedCollectives& h, Floats& v) {
    return h.all_reduce("x", {tensor_of(v).buffer, Shape{6}, h.rank() ? DType::int32 : DType::float32});
  });
  expect_refused("horovod: x: the operation differs: all_reduce on rank 0, all_gather on rank 1; accepted: the same on every rank",
                 [](NamedCollectives& h, Floats& v) { return h.rank() ? h.all_gather("x", tensor_of(v)) : h.all_reduce("x", tensor_of(v)); });
  expect_refused("horovod: x: the root differs: 0 on rank 0, 1 on rank 1; accepted: the same on every rank",
                 [](NamedCollectives& h, Floats& v) { return h.broadcast("x", tensor_of(v), h.rank()); });
  expect_refused("horovod: x: the reduction differs: sum on rank 0, max on rank 1; accepted: the same on every rank",
                 [](NamedCollectives& h, Floats& v) { return h.all_reduce("x", tensor_of(v), {.reduction = h.rank() ? Reduction::max : Reduction::sum}); });
  expect_refused("horovod: x: the scale before it differs: 1 on rank 0, 2 on rank 1; accepted: the same on every rank",
                 [](NamedCollectives& h, Floats& v) { return h.all_reduce("x", tensor_of(v), {.prescale = 1.0 + h.rank()}); });
  expect_refused(
      "horovod: x: the compression differs: float32 on rank 0, float16 on rank 1; accepted: the same on every rank",
      [](NamedCollectives& h, Floats& v) { return h.all_reduce("x", tensor_of(v), {.wire = h.rank() ? std::optional(DType::float16) : std::nullopt}); });
  expect_refused("horovod: x: the shape differs: [1, 6] on rank 0, [2, 3] on rank 1; accepted: the same on every rank", [](NamedCollectives& h, Floats& v) {
    return h.all_gather("x", {tensor_of(v).buffer, h.rank() ? Shape{2, 3} : Shape{1, 6}, DType::float32});
  });
  expect_refused("horovod: x: the group differs: g of 1 on rank 0, no group on rank 1; accepted: the same on every rank", [](NamedCollectives& h, Floats& v) {
    if (h.rank()) return h.all_reduce("x", tensor_of(v));
    auto grouped = h.grouped_all_reduce("g", {{"x", tensor_of(v)}});
    return std::move(grouped[0]);
  });
}

TEST(Horovod, refuses_what_no_rank_can_ask_for) {
  run_horovod(2, quick(), [](NamedCollectives& h) {
    Floats a(6, 1.0f);
    EXPECT_EQ(message_of<UsageError>([&] { h.broadcast("x", tensor_of(a), 2); }), "horovod: x: the root is 2; accepted: 0..1");
    EXPECT_EQ(message_of<UsageError>([&] { h.all_reduce("", tensor_of(a)); }),
              "horovod: a tensor has no name; accepted: a name that is the same on every rank");
    EXPECT_EQ(message_of<UsageError>([&] { h.all_reduce("join", tensor_of(a)); }), "horovod: a tensor is called 'join', as join() is; accepted: another name");
    for (const bool gathers : {true, false})
      EXPECT_EQ(message_of<ShapeError>([&] {
                  gathers ? h.all_gather("x", {tensor_of(a).buffer, Shape{}}) : h.all_to_all("x", {tensor_of(a).buffer, Shape{}}, {0, 0});
                }),
                "horovod: x: a scalar has no rows; accepted: one axis or more");
    EXPECT_EQ(message_of<ShapeError>([&] {
                h.all_reduce("x", {tensor_of(a).buffer, Shape{24}, DType::boolean});
              }),
              "horovod: x: booleans are not reduced; accepted: float32, float16, bfloat16, int32, int64");
    EXPECT_EQ(message_of<UsageError>([&] {
                h.all_reduce("x", {tensor_of(a).buffer, Shape{6}, DType::int32}, {.prescale = 2});
              }),
              "horovod: x: int32 is scaled; accepted: floating types");
    EXPECT_EQ(message_of<UsageError>([&] {
                h.all_reduce("x", {tensor_of(a).buffer, Shape{6}, DType::int32}, {.wire = DType::float16});
              }),
              "horovod: x: all_reduce of int32 travels as float16; accepted: all_reduce of float32 as float16 or bfloat16");
    EXPECT_EQ(message_of<ShapeError>([&] {
                h.all_to_all("x", tensor_of(a), {1, 2});
              }),
              "horovod: x: 3 rows go to 2 ranks, of 6 rows; accepted: for each of 2 ranks 0 or more, all of them together");
  });
}

TEST(Horovod, refuses_a_name_that_is_under_way_and_what_comes_after_shutdown) {
  run_communicating_ranks(2, [](CommunicationThread& communication) {
    NamedCollectives h(communication, quick());
    Floats a{1}, b{1}, never{1};
    std::optional<Handle> first;
    if (h.rank() == 0) {
      first = h.all_reduce("a", tensor_of(a));
      EXPECT_EQ(message_of<UsageError>([&] { h.all_reduce("a", tensor_of(b)); }),
                "horovod: a: it is under way already; accepted: one request of a name at a time");
    }
    communication.run([](Collectives& c) { c.barrier(); });
    if (h.rank() == 1) first = h.all_reduce("a", tensor_of(a));
    first->synchronize();
    std::optional<Handle> alone;
    if (h.rank() == 0) alone = h.all_reduce("alone", tensor_of(never));
    h.shutdown();
    if (alone) {
      const std::string said = message_of<CommError>([&] { alone->synchronize(); });
      const bool heard_of_the_other =
          said == "all-reduce alone: rank 1 of 2 on localhost has ended (after request 1); this rank is at request 2; accepted: join() for uneven loops";
      EXPECT_TRUE(heard_of_the_other || said == "horovod: shutdown came before all ranks had asked for it") << said;
    }
    EXPECT_EQ(message_of<UsageError>([&] { h.all_reduce("late", tensor_of(b)); }), "horovod: late: it is asked for after shutdown; accepted: before it");
  });
}

TEST(Horovod, takes_no_name_of_a_group_that_it_refuses) {
  run_horovod(2, quick(), [](NamedCollectives& h) {
    Floats a{1}, b{2}, c{3};
    const auto refused = [&](std::vector<NamedCollectives::Named> named) {
      return message_of<UsageError>([&] { h.grouped_all_reduce("g", std::move(named)); });
    };
    EXPECT_EQ(refused({{"a", tensor_of(a)}, {"b", tensor_of(b)}, {"a", tensor_of(c)}}),
              "horovod: a: it is under way already; accepted: one request of a name at a time");
    EXPECT_EQ(refused({{"a", tensor_of(a)}, {"", tensor_of(b)}}), "horovod: a tensor has no name; accepted: a name that is the same on every rank");
    for (Handle& handle : h.grouped_all_reduce("g", {{"a", tensor_of(a)}, {"b", tensor_of(b)}}, {.reduction = Reduction::sum})) handle.synchronize();
    EXPECT_EQ(a[0], 2);
    EXPECT_EQ(b[0], 4);
  });
}

TEST(Horovod, says_what_a_rank_that_has_joined_cannot_take_part_in) {
  run_horovod(2, quick(), [](NamedCollectives& h) {
    Floats a(2, 1.0f);
    if (h.rank() == 0) {
      const auto refused = [&](Handle handle) { return message_of<CommError>([&] { handle.synchronize(); }); };
      EXPECT_EQ(refused(h.broadcast("x", tensor_of(a), 1)), "horovod: x: the root, rank 1, has joined; accepted: a root that has data");
      EXPECT_EQ(refused(h.all_to_all("x", tensor_of(a), {1, 1})),
                "horovod: x: an all_to_all goes on while a rank has joined; accepted: all ranks, or none that has joined");
      h.broadcast("x", tensor_of(a), 0).synchronize();
      h.reduce_scatter("y", tensor_of(a)).synchronize();
    }
    h.join().synchronize();
  });
}

TEST(Horovod, refuses_what_was_agreed_on_before_a_rank_joined) {
  run_horovod(2, quick(), [](NamedCollectives& h) {
    Floats b(2, 1.0f), c = b, e = b;
    const std::pair<std::function<Handle()>, std::string> asked[] = {
        {[&] { return h.broadcast("b", tensor_of(b), 1); }, "horovod: b: the root, rank 1, has joined; accepted: a root that has data"},
        {[&] {
           return h.all_to_all("c", tensor_of(c), {1, 1});
         },
         "horovod: c: an all_to_all goes on while a rank has joined; accepted: all ranks, or none that has joined"}};
    for (int epoch = 0; epoch < 2; ++epoch) {  // what was refused is agreed on still
      for (const auto& [ask, text] : asked) ask().synchronize();
      h.all_reduce("e", tensor_of(e)).synchronize();
      const std::int64_t negotiations = h.statistics().negotiations;
      if (h.rank() == 0) {
        for (const auto& [ask, text] : asked) EXPECT_EQ(message_of<CommError>([&] { ask().synchronize(); }), text);
        h.all_reduce("e", tensor_of(e)).synchronize();
        EXPECT_LE(h.statistics().negotiations - negotiations, 2) << "but for the join itself, and memory that the other rank packs zeros in, bits alone";
      }
      h.join().synchronize();
    }
  });
}

TEST(Horovod, warns_of_a_stall_by_tensor_and_rank_and_gives_up_where_it_is_told_to) {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::atomic<int> refused = 0;
  EXPECT_THROW(run_communicating_ranks(3,
                                       [&](CommunicationThread& communication) {
                                         NamedCollectives h(communication, {.cycle_ms = 1, .stall_warning_s = 0.2, .stall_shutdown_s = 0.6},
                                                            [&](const std::string& line) {
                                                              const std::lock_guard lock(mutex);
                                                              lines.push_back(line);
                                                            });
                                         Floats known{1}, fresh{1};
                                         h.all_reduce("known", tensor_of(known)).synchronize();
                                         std::vector<Handle> waiting;
                                         if (h.rank() != 1) waiting.push_back(h.all_reduce("known", tensor_of(known)));
                                         if (h.rank() == 2) waiting.push_back(h.all_reduce("fresh", tensor_of(fresh)));
                                         if (h.rank() == 1) waiting.push_back(h.all_reduce("other", tensor_of(fresh)));
                                         for (Handle& handle : waiting) try {
                                             handle.synchronize();
                                           } catch (const CommError& e) {
                                             ++refused;
                                             throw;
                                           }
                                       },
                                       {"m", "m", "n"}),
               CommError);
  EXPECT_GE(refused, 1);
  ASSERT_FALSE(lines.empty());
  const auto says = [&](const std::string& tensor, const std::string& ranks) {
    return std::ranges::any_of(lines, [&](const std::string& line) {
      return line.find("horovod: " + tensor + " has waited ") != std::string::npos && line.find(" s for " + ranks) != std::string::npos;
    });
  };
  EXPECT_TRUE(says("known", "rank 1 (m)")) << lines[0];
  EXPECT_TRUE(says("fresh", "rank 0 (m), rank 1 (m)")) << lines[0];
}

TEST(Horovod, a_stall_that_ends_is_forgotten) {
  std::atomic<int> warnings = 0;
  run_communicating_ranks(2, [&](CommunicationThread& communication) {
    NamedCollectives h(communication, {.cycle_ms = 1, .stall_warning_s = 0.1}, [&](const std::string&) { ++warnings; });
    Floats a{1};
    const auto sum = [&] {
      a = {1};
      h.all_reduce("a", tensor_of(a), {.reduction = Reduction::sum}).synchronize();
      EXPECT_EQ(a[0], 2);
    };
    sum();
    for (const int late : {0, 1}) {  // each rank reports it overdue once, and the other comes by bits alone
      if (h.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(400));
      sum();
    }
    const std::int64_t before = h.statistics().tensors;
    const int told = warnings;
    EXPECT_EQ(before, 3) << "nothing was carried out of what only one rank asked for at a time";
    for (int step = 0; step < 20; ++step) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      sum();
    }
    EXPECT_EQ(h.statistics().tensors, before + 20);
    EXPECT_EQ(warnings, told) << "of a stall that has ended";
    h.shutdown();
  });
  EXPECT_GE(warnings, 1);
}

TEST(Horovod, refuses_a_timeline_that_cannot_be_written_before_it_begins) {
  Options options = quick();
  options.timeline = "/nowhere/timeline.json";
  EXPECT_THROW(run_horovod(2, options, [](NamedCollectives&) {}), Error);
}

TEST(Horovod, refuses_a_pipe_for_the_log_of_tuning_and_waits_for_no_reader) {
  const TemporaryFolder folder;
  Options options = quick();
  options.tunes = true;
  options.tuning_log = (folder.path() / "pipe").string();
  ASSERT_EQ(::mkfifo(options.tuning_log.c_str(), 0600), 0);
  EXPECT_EQ(testing::message_of<DataError>([&] { Autotuner tuner(options); }),
            "HOROVOD_AUTOTUNE_LOG: cannot open " + options.tuning_log + ": it is no regular file; accepted: a regular file");
}

TEST(Horovod, tells_of_a_timeline_that_cannot_be_written_at_the_end) {
  const TemporaryFolder folder;
  const std::filesystem::path inner = folder.path() / "inner";
  std::filesystem::create_directory(inner);
  Options options = quick();
  options.timeline = (inner / "timeline.json").string();
  run_communicating_ranks(2, [&](CommunicationThread& communication) {
    NamedCollectives h(communication, options);
    communication.run([&](Collectives& c) {
      if (c.rank() == 0) std::filesystem::remove_all(inner);
    });
    if (h.rank() == 0) {
      EXPECT_THROW(h.shutdown(), DataError);
    } else {
      h.shutdown();
    }
  });
}

TEST(Horovod, writes_what_rank_0_recorded_where_communication_fails) {
  const TemporaryFolder folder;
  Options options = quick();
  options.timeline = (folder.path() / "timeline.json").string();
  run_communicating_ranks(2, [&](CommunicationThread& communication) {
    NamedCollectives h(communication, options);
    Floats a{1};
    h.all_reduce("a", tensor_of(a)).synchronize();
    EXPECT_THROW(communication.run([](Collectives&) { throw CommError("failed"); }), CommError);
    EXPECT_THROW(h.shutdown(), CommError);
  });
  const auto trace = nlohmann::json::parse(std::ifstream(options.timeline));
  EXPECT_TRUE(std::ranges::any_of(trace.at("traceEvents"), [](const auto& e) { return e.at("name") == "ALLREDUCE"; }));
}

TEST(HorovodOptions, are_horovods_variables_and_numbers_or_refused) {
  const auto with = [](std::map<std::string, std::string> variables) {
    return options_from([variables = std::move(variables)](const char* name) { return variables.contains(name) ? variables.at(name).c_str() : nullptr; });
  };
  const Options defaults = with({});
  EXPECT_EQ(defaults.fusion_bytes, 134'217'728);
  EXPECT_EQ(defaults.cycle_ms, 1);
  EXPECT_EQ(defaults.cache_capacity, 1024u);
  EXPECT_EQ(defaults.stall_warning_s, 60);
  const Options o = with({{"HOROVOD_FUSION_THRESHOLD", "1000"},
                          {"HOROVOD_CYCLE_TIME", "2.5"},
                          {"HOROVOD_CACHE_CAPACITY", "0"},
                          {"HOROVOD_STALL_CHECK_TIME_SECONDS", "7"},
                          {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "9"},
                          {"HOROVOD_TIMELINE", "t.json"},
                          {"HOROVOD_TIMELINE_MARK_CYCLES", "1"},
                          {"HOROVOD_AUTOTUNE", "1"},
                          {"HOROVOD_AUTOTUNE_LOG", "log"},
                          {"HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "1"},
                          {"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "4"}});
  EXPECT_EQ(o.fusion_bytes, 1000);
  EXPECT_EQ(o.cycle_ms, 2.5);
  EXPECT_EQ(o.cache_capacity, 0u);
  EXPECT_EQ(o.stall_warning_s, 7);
  EXPECT_EQ(o.stall_shutdown_s, 9);
  EXPECT_EQ(o.timeline, "t.json");
  EXPECT_TRUE(o.marks_cycles && o.tunes);
  EXPECT_EQ(o.tuning_log, "log");
  EXPECT_EQ(o.tuning_warmup_samples, 1);
  EXPECT_EQ(o.tuning_steps, 4);
  EXPECT_EQ(with({{"HOROVOD_STALL_CHECK_DISABLE", "1"}}).stall_warning_s, 0);
  EXPECT_EQ(message_of<UsageError>([&] { with({{"HOROVOD_CYCLE_TIME", "fast"}}); }), "HOROVOD_CYCLE_TIME: 'fast'; accepted: a number from 0 to 1000000");
  EXPECT_EQ(message_of<UsageError>([&] {
              with({{"HOROVOD_FUSION_THRESHOLD", "-1"}});
            }),
            "HOROVOD_FUSION_THRESHOLD: '-1'; accepted: a number from 0 to 1099511627776");
  EXPECT_EQ(message_of<UsageError>([&] { with({{"HOROVOD_CACHE_CAPACITY", "12x"}}); }), "HOROVOD_CACHE_CAPACITY: '12x'; accepted: a number from 0 to 1048576");
  EXPECT_EQ(message_of<UsageError>([&] { with({{"HOROVOD_AUTOTUNE", "yes"}}); }), "HOROVOD_AUTOTUNE: 'yes'; accepted: 0, 1");
  for (const std::string name : {"HOROVOD_AUTOTUNE_LOG", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE"}) {
    EXPECT_EQ(message_of<UsageError>([&] { with({{name, "5"}}); }), name + ": it is given without HOROVOD_AUTOTUNE; accepted: HOROVOD_AUTOTUNE=1 with it");
  }
  EXPECT_EQ(message_of<UsageError>([&] {
              with({{"HOROVOD_TIMELINE_MARK_CYCLES", "1"}});
            }),
            "HOROVOD_TIMELINE_MARK_CYCLES: it is given without HOROVOD_TIMELINE; accepted: a file of HOROVOD_TIMELINE with it");
  EXPECT_FALSE(with({{"HOROVOD_TIMELINE_MARK_CYCLES", "0"}}).marks_cycles);
  for (const auto& [name, value] : {std::pair("HOROVOD_STALL_CHECK_DISABLE", "1"), std::pair("HOROVOD_STALL_CHECK_TIME_SECONDS", "0")})
    EXPECT_EQ(message_of<UsageError>([&] {
                with({{"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "9"}, {name, value}});
              }),
              "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS: it is given where stalls are not looked for; accepted: a HOROVOD_STALL_CHECK_TIME_SECONDS over 0, and no "
              "HOROVOD_STALL_CHECK_DISABLE=1");
}

}  // namespace
}  // namespace gemel::parallel::horovod
