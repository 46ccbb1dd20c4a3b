// Horovod's cycles on ranks that are threads of this process: what they compute, how often they meet, and what they refuse.
#include "parallel/horovod/horovod.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "engine/base/error.h"
#include "engine/base/span.h"
#include "tests/communicating_ranks.h"
#include "tests/message_of.h"
#include "tests/rank_contents.h"
#include "tests/temporary_folder.h"
#include "tests/test_device.h"

namespace gemel::parallel::horovod {
namespace {

using namespace gemel::testing;

using Floats = std::vector<float>;

Tensor tensor_of(Floats& values) { return {host_buffer(std::as_writable_bytes(std::span(values))), Shape{std::ssize(values)}, DType::float32}; }
Tensor scalar_of(float& value) { return {host_buffer(std::as_writable_bytes(std::span(&value, 1))), Shape{}, DType::float32}; }

/// Runs the body on ranks that have called init, and shuts down behind it.
void run_horovod(int ranks, const Options& options, const std::function<void(Horovod&)>& body, std::vector<std::string> hosts = {}) {
  run_communicating_ranks(ranks, [&](CommunicationThread& communication) {
    Horovod horovod(communication, options);
    body(horovod);
    horovod.shutdown();
  }, std::move(hosts));
}
Options quick() { return {.cycle_ms = 0.1}; }

TEST(Horovod, sums_averages_and_scales_what_all_ranks_ask_for) {
  for (const int ranks : {1, 2, 3, 4})
    run_horovod(ranks, quick(), [&](Horovod& h) {
      Floats a(1000, static_cast<float>(h.rank() + 1)), b = a, c = a, d = a;
      Handle mean = h.all_reduce("a", tensor_of(a)), sum = h.all_reduce("b", tensor_of(b), {.reduction = Reduction::sum, .prescale = 0.5, .postscale = 4});
      Handle most = h.all_reduce("c", tensor_of(c), {.reduction = Reduction::max}), half = h.all_reduce("d", tensor_of(d), {.reduction = Reduction::sum, .wire = DType::float16});
      for (Handle* handle : {&mean, &sum, &most, &half}) handle->synchronize();
      const float all = static_cast<float>(ranks * (ranks + 1)) / 2;
      EXPECT_EQ(a, Floats(1000, all / static_cast<float>(ranks)));
      EXPECT_EQ(b, Floats(1000, 2 * all));
      EXPECT_EQ(c, Floats(1000, static_cast<float>(ranks)));
      EXPECT_EQ(d, Floats(1000, all)) << "small whole numbers are exact in float16";
    });
}

TEST(Horovod, rounds_to_two_bytes_only_what_travels) {
  run_horovod(2, quick(), [](Horovod& h) {
    Floats a{1 + 1e-6f, 70000, 0.1f};
    h.all_reduce("a", tensor_of(a), {.wire = DType::float16}).synchronize();
    EXPECT_EQ(a[0], 1);
    EXPECT_TRUE(std::isinf(a[1])) << "beyond what float16 holds";
    EXPECT_NEAR(a[2], 0.1, 0.1 / 2048);
  });
}

TEST(Horovod, gathers_broadcasts_scatters_and_exchanges) {
  for (const int ranks : {1, 2, 3})
    run_horovod(ranks, quick(), [&](Horovod& h) {
      const int r = h.rank();
      Floats rows(at(2 * r), static_cast<float>(r));
      Handle gathered = h.all_gather("rows", {host_buffer(std::as_writable_bytes(std::span(rows))), Shape{r, 2}, DType::float32});
      Floats root(5, static_cast<float>(r));
      Handle broadcast = h.broadcast("root", tensor_of(root), ranks - 1);
      Floats pieces(7, 1.0f);
      Handle scattered = h.reduce_scatter("pieces", tensor_of(pieces), {.reduction = Reduction::sum, .postscale = 2});
      Floats given(at(ranks), static_cast<float>(r));
      Handle exchanged = h.all_to_all("given", tensor_of(given), std::vector<std::int64_t>(at(ranks), 1));
      const auto received = gathered.synchronize().received;
      ASSERT_EQ(received.size(), at(ranks));
      for (int from = 0; from < ranks; ++from) EXPECT_EQ(received[at(from)].size(), at(8 * from));
      broadcast.synchronize();
      EXPECT_EQ(root, Floats(5, static_cast<float>(ranks - 1)));
      scattered.synchronize();
      for (std::int64_t i = Collectives::piece_begin(7, r, ranks); i < Collectives::piece_begin(7, r + 1, ranks); ++i) EXPECT_EQ(pieces[at(i)], 2 * ranks);
      const auto swapped = exchanged.synchronize().received;
      for (int from = 0; from < ranks; ++from) {
        float value = -1;
        ASSERT_EQ(swapped[at(from)].size(), sizeof value);
        std::memcpy(&value, swapped[at(from)].data(), sizeof value);
        EXPECT_EQ(value, static_cast<float>(from));
      }
    });
}

/// Sizes and types are drawn once a name.
struct Drawn {
  std::string name;
  DType dtype;
  std::int64_t count;
};
std::vector<Drawn> drawn_tensors(int count) {
  std::mt19937 random(7);
  std::vector<Drawn> out;
  for (int i = 0; i < count; ++i)
    out.push_back({fmt::format("tensor.{}", i), std::array{DType::float32, DType::float16, DType::bfloat16, DType::int32, DType::int64}[random() % 5], 1 + static_cast<std::int64_t>(random() % 300)});
  return out;
}

TEST(Horovod, sums_200_tensors_asked_for_in_another_random_order_on_every_rank_with_one_exchange_of_bits_a_cycle) {
  const std::vector<Drawn> drawn = drawn_tensors(200);
  const int steps = is_full_run() ? 1000 : 100;
  for (const int ranks : {2, 4})
    run_horovod(ranks, {.fusion_bytes = 20'000, .cycle_ms = 0.2}, [&](Horovod& h) {
      std::mt19937 random(static_cast<unsigned>(h.rank()));
      Horovod::Statistics warm;
      for (int step = 0; step < steps; ++step) {
        std::vector<std::size_t> order(drawn.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::ranges::shuffle(order, random);
        std::vector<Bytes> held(drawn.size());
        std::vector<Handle> handles;
        for (const std::size_t i : order) {
          const Drawn& d = drawn[i];
          held[i] = contents(d.dtype, h.rank() + step, d.count);
          handles.push_back(h.all_reduce(d.name, {host_buffer(held[i]), Shape{d.count}, d.dtype}, {.reduction = Reduction::max}));
        }
        for (Handle& handle : handles) handle.synchronize();
        for (const std::size_t i : {order[0], order[100], order[199]}) {
          Bytes expected = contents(drawn[i].dtype, step, drawn[i].count);
          std::vector<double> most = numbers_from_bytes(drawn[i].dtype, expected);
          for (int r = 1; r < ranks; ++r) {
            const auto theirs = numbers_from_bytes(drawn[i].dtype, contents(drawn[i].dtype, r + step, drawn[i].count));
            for (std::size_t k = 0; k < most.size(); ++k) most[k] = std::max(most[k], theirs[k]);
          }
          ASSERT_EQ(numbers_from_bytes(drawn[i].dtype, held[i]), most) << drawn[i].name << " of step " << step;
        }
        if (step == 2) warm = h.statistics();
      }
      const Horovod::Statistics end = h.statistics();
      EXPECT_EQ(end.negotiations, warm.negotiations) << "what the ranks agreed on needs bits alone";
      EXPECT_EQ(end.bit_exchanges, end.cycles);
      EXPECT_EQ(end.tensors, std::int64_t{200} * steps);
      EXPECT_LT(end.all_reduces, end.tensors / 2) << "small tensors are fused";
    });
}

TEST(Horovod, reduces_a_fused_group_at_once_and_nothing_more_than_the_threshold) {
  std::vector<Request> requests;
  const auto add = [&](const char* name, std::int64_t count, DType dtype = DType::float32, const char* group = "") {
    requests.push_back({.name = name, .dtype = dtype, .shape = Shape{count}, .wire = dtype, .group = group});
  };
  add("a", 10);
  add("b", 10, DType::int32);
  add("c", 10);
  add("d", 20);
  add("e", 1);
  requests.push_back({.operation = Operation::broadcast, .name = "f", .shape = Shape{1}});
  using Groups = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(fused(requests, 84), (Groups{{0, 2, 4}, {1}, {3}, {5}}));
  EXPECT_EQ(fused(requests, 0), (Groups{{0}, {1}, {2}, {3}, {4}, {5}}));
  requests[0].group = requests[3].group = "together";
  EXPECT_EQ(fused(requests, 0), (Groups{{0, 3}, {1}, {2}, {4}, {5}})) << "a group whatever its size";
}

TEST(Horovod, carries_out_a_group_only_when_all_of_it_is_there) {
  run_horovod(2, {.cycle_ms = 0.1}, [](Horovod& h) {
    for (int step = 0; step < 3; ++step) {
      Floats a{1}, b{2};
      const std::int64_t before = h.statistics().all_reduces;
      auto handles = h.grouped_all_reduce("pair", {{"a", tensor_of(a)}, {"b", tensor_of(b)}}, {.reduction = Reduction::sum});
      for (Handle& handle : handles) handle.synchronize();
      EXPECT_EQ(a[0], 2);
      EXPECT_EQ(b[0], 4);
      EXPECT_EQ(h.statistics().all_reduces - before, 1);
    }
  });
}

TEST(Horovod, a_rank_that_has_joined_adds_zeros_until_all_have) {
  run_horovod(3, quick(), [](Horovod& h) {
    const int steps = 2 + 2 * h.rank();  // the data of rank 2 last longest
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (int step = 0; step < steps; ++step) {
        Floats a{3};
        h.all_reduce("a", tensor_of(a)).synchronize();
        const int with_data = step < 2 ? 3 : step < 4 ? 2 : 1;
        EXPECT_EQ(a[0], static_cast<float>(with_data)) << "a mean divides by all ranks";
        Floats rows{1};
        const auto received = h.all_gather("rows", tensor_of(rows)).synchronize().received;
        EXPECT_EQ(std::ranges::count_if(received, [](const Bytes& bytes) { return !bytes.empty(); }), with_data);
      }
      EXPECT_EQ(h.join().synchronize().last_joined, 2);
    }
  });
}

TEST(Horovod, agrees_anew_where_a_size_changes) {
  run_horovod(2, {.cycle_ms = 0.1, .cache_capacity = 2}, [](Horovod& h) {
    for (int step = 0; step < 20; ++step)
      for (const char* name : {"a", "b", "c"}) {  // more than the cache holds
        Floats a(at(1 + step / 5), 1.0f);
        h.all_reduce(name, tensor_of(a), {.reduction = Reduction::sum}).synchronize();
        EXPECT_EQ(a, Floats(a.size(), 2.0f));
      }
    EXPECT_GT(h.statistics().negotiations, 3);
  });
  run_horovod(2, {.cycle_ms = 0.1, .cache_capacity = 0}, [](Horovod& h) {
    for (int step = 0; step < 3; ++step) {
      Floats a{1};
      h.all_reduce("a", tensor_of(a), {.reduction = Reduction::sum}).synchronize();
      EXPECT_EQ(a[0], 2);
    }
    EXPECT_GE(h.statistics().negotiations, 3);
  });
}

/// What every rank is told where ranks ask for different things, and that communication goes on.
template <class Ask>
void expect_refused(const std::string& text, const Ask& ask) {
  run_horovod(2, quick(), [&](Horovod& h) {
    Floats values(6, 1.0f);
    EXPECT_EQ(message_of<CommError>([&] { ask(h, values).synchronize(); }), text);
    Floats a{1};
    h.all_reduce("next", tensor_of(a)).synchronize();
    EXPECT_EQ(a[0], 1);
  });
}

TEST(Horovod, tells_every_rank_how_requests_of_one_name_differ) {
  expect_refused("horovod: x: the shape differs: [6] on rank 0, [2, 3] on rank 1; accepted: the same on every rank", [](Horovod& h, Floats& v) {
    return h.all_reduce("x", {tensor_of(v).buffer, h.rank() ? Shape{2, 3} : Shape{6}, DType::float32});
  });
  expect_refused("horovod: x: the shape differs: [] on rank 0, [1] on rank 1; accepted: the same on every rank", [](Horovod& h, Floats& v) {
    v.resize(1);
    return h.all_reduce("x", h.rank() ? tensor_of(v) : scalar_of(v[0]));
  });
  expect_refused("horovod: x: the type differs: float32 on rank 0, int32 on rank 1; accepted: the same on every rank", [](Horovod& h, Floats& v) {
    return h.all_reduce("x", {tensor_of(v).buffer, Shape{6}, h.rank() ? DType::int32 : DType::float32});
  });
  expect_refused("horovod: x: the operation differs: all_reduce on rank 0, all_gather on rank 1; accepted: the same on every rank", [](Horovod& h, Floats& v) {
    return h.rank() ? h.all_gather("x", tensor_of(v)) : h.all_reduce("x", tensor_of(v));
  });
  expect_refused("horovod: x: the root differs: 0 on rank 0, 1 on rank 1; accepted: the same on every rank", [](Horovod& h, Floats& v) { return h.broadcast("x", tensor_of(v), h.rank()); });
  expect_refused("horovod: x: the reduction differs: sum on rank 0, max on rank 1; accepted: the same on every rank", [](Horovod& h, Floats& v) {
    return h.all_reduce("x", tensor_of(v), {.reduction = h.rank() ? Reduction::max : Reduction::sum});
  });
  expect_refused("horovod: x: the scale before it differs: 1 on rank 0, 2 on rank 1; accepted: the same on every rank",
                 [](Horovod& h, Floats& v) { return h.all_reduce("x", tensor_of(v), {.prescale = 1.0 + h.rank()}); });
  expect_refused("horovod: x: the compression differs: float32 on rank 0, float16 on rank 1; accepted: the same on every rank", [](Horovod& h, Floats& v) {
    return h.all_reduce("x", tensor_of(v), {.wire = h.rank() ? std::optional(DType::float16) : std::nullopt});
  });
  expect_refused("horovod: x: the shape differs: [1, 6] on rank 0, [2, 3] on rank 1; accepted: the same on every rank",
                 [](Horovod& h, Floats& v) { return h.all_gather("x", {tensor_of(v).buffer, h.rank() ? Shape{2, 3} : Shape{1, 6}, DType::float32}); });
  expect_refused("horovod: x: the group differs: g of 1 on rank 0, no group on rank 1; accepted: the same on every rank", [](Horovod& h, Floats& v) {
    return h.rank() ? h.all_reduce("x", tensor_of(v)) : std::move(h.grouped_all_reduce("g", {{"x", tensor_of(v)}})[0]);
  });
}

TEST(Horovod, refuses_what_no_rank_can_ask_for) {
  run_horovod(2, quick(), [](Horovod& h) {
    Floats a(6, 1.0f);
    EXPECT_EQ(message_of<UsageError>([&] { h.broadcast("x", tensor_of(a), 2); }), "horovod: x: the root is 2; accepted: 0..1");
    EXPECT_EQ(message_of<UsageError>([&] { h.all_reduce("", tensor_of(a)); }), "horovod: a tensor has no name; accepted: a name that is the same on every rank");
    EXPECT_EQ(message_of<ShapeError>([&] { h.all_reduce("x", {tensor_of(a).buffer, Shape{24}, DType::boolean}); }),
              "horovod: x: booleans are not reduced; accepted: float32, float16, bfloat16, int32, int64");
    EXPECT_EQ(message_of<UsageError>([&] { h.all_reduce("x", {tensor_of(a).buffer, Shape{6}, DType::int32}, {.prescale = 2}); }),
              "horovod: x: int32 is scaled; accepted: floating types");
    EXPECT_EQ(message_of<UsageError>([&] { h.all_reduce("x", {tensor_of(a).buffer, Shape{6}, DType::int32}, {.wire = DType::float16}); }),
              "horovod: x: all_reduce of int32 travels as float16; accepted: all_reduce of float32 as float16 or bfloat16");
    EXPECT_EQ(message_of<ShapeError>([&] { h.all_to_all("x", tensor_of(a), {1, 2}); }),
              "horovod: x: 3 rows go to 2 ranks, of 6 rows; accepted: for each of 2 ranks 0 or more, all of them together");
  });
}

TEST(Horovod, refuses_a_name_that_is_under_way_and_what_comes_after_shutdown) {
  run_communicating_ranks(2, [](CommunicationThread& communication) {
    Horovod h(communication, quick());
    Floats a{1}, b{1}, never{1};
    std::optional<Handle> first;
    if (h.rank() == 0) {
      first = h.all_reduce("a", tensor_of(a));
      EXPECT_EQ(message_of<UsageError>([&] { h.all_reduce("a", tensor_of(b)); }), "horovod: a: it is under way already; accepted: one request of a name at a time");
    }
    communication.run([](Collectives& c) { c.barrier(); });
    if (h.rank() == 1) first = h.all_reduce("a", tensor_of(a));
    first->synchronize();
    std::optional<Handle> alone;
    if (h.rank() == 0) alone = h.all_reduce("alone", tensor_of(never));
    h.shutdown();
    if (alone) {
      EXPECT_EQ(message_of<CommError>([&] { alone->synchronize(); }), "horovod: shutdown came before all ranks had asked for it");
    }
    EXPECT_EQ(message_of<UsageError>([&] { h.all_reduce("late", tensor_of(b)); }), "horovod: late: it is asked for after shutdown; accepted: before it");
  });
}

TEST(Horovod, says_what_a_rank_that_has_joined_cannot_take_part_in) {
  run_horovod(2, quick(), [](Horovod& h) {
    Floats a(2, 1.0f);
    if (h.rank() == 0) {
      const auto refused = [&](Handle handle) { return message_of<CommError>([&] { handle.synchronize(); }); };
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_EQ(refused(h.all_reduce("x", tensor_of(a), {.reduction = Reduction::max})), "horovod: x: the reduction is max while a rank has joined; accepted: sum, mean");
      EXPECT_EQ(refused(h.broadcast("x", tensor_of(a), 1)), "horovod: x: the root, rank 1, has joined; accepted: a root that has data");
      EXPECT_EQ(refused(h.all_to_all("x", tensor_of(a), {1, 1})), "horovod: x: an all_to_all goes on while a rank has joined; accepted: all ranks, or none that has joined");
      h.broadcast("x", tensor_of(a), 0).synchronize();
      h.reduce_scatter("y", tensor_of(a)).synchronize();
    }
    h.join().synchronize();
  });
}

TEST(Horovod, warns_of_a_stall_by_tensor_and_rank_and_gives_up_where_it_is_told_to) {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::atomic<int> refused = 0;
  EXPECT_THROW(run_communicating_ranks(3, [&](CommunicationThread& communication) {
    Horovod h(communication, {.cycle_ms = 1, .stall_warning_s = 0.2, .stall_shutdown_s = 0.6}, [&](const std::string& line) {
      const std::lock_guard lock(mutex);
      lines.push_back(line);
    });
    Floats known{1}, fresh{1};
    h.all_reduce("known", tensor_of(known)).synchronize();
    std::vector<Handle> waiting;
    if (h.rank() != 1) waiting.push_back(h.all_reduce("known", tensor_of(known)));
    if (h.rank() == 2) waiting.push_back(h.all_reduce("fresh", tensor_of(fresh)));
    if (h.rank() == 1) waiting.push_back(h.all_reduce("other", tensor_of(fresh)));
    for (Handle& handle : waiting)
      try {
        handle.synchronize();
      } catch (const CommError& e) {
        ++refused;
        throw;
      }
  }, {"m", "m", "n"}), CommError);
  EXPECT_GE(refused, 1);
  ASSERT_FALSE(lines.empty());
  const auto has = [&](const std::string& text) { return std::ranges::any_of(lines, [&](const std::string& line) { return line.find(text) != std::string::npos; }); };
  EXPECT_TRUE(has("horovod: known has waited 0 s for rank 1 (m)")) << lines[0];
  EXPECT_TRUE(has("horovod: fresh has waited 0 s for rank 0 (m), rank 1 (m)"));
}

TEST(Horovod, a_stall_that_ends_is_forgotten) {
  std::atomic<int> warnings = 0;
  run_communicating_ranks(2, [&](CommunicationThread& communication) {
    Horovod h(communication, {.cycle_ms = 1, .stall_warning_s = 0.1}, [&](const std::string&) { ++warnings; });
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

TEST(Horovod, work_that_the_communication_thread_is_given_runs_in_its_order_among_requests_in_any) {
  run_communicating_ranks(3, [](CommunicationThread& communication) {
    Horovod h(communication, quick());
    std::mt19937 random(static_cast<unsigned>(h.rank()));
    for (int step = 0; step < 50; ++step) {
      Floats a{1}, b{2};
      std::vector<std::string> names{"a", "b"};
      std::ranges::shuffle(names, random);
      std::vector<Handle> handles;
      for (const std::string& name : names) handles.push_back(h.all_reduce(name, tensor_of(name == "a" ? a : b), {.reduction = Reduction::sum}));
      const float seen = communication.run([&](Collectives& c) {
        std::int64_t one = 1;
        c.all_reduce({reinterpret_cast<std::byte*>(&one), 1, DType::int64});
        EXPECT_EQ(one, 3);
        return a[0] + b[0];
      });
      EXPECT_EQ(seen, 9) << "what was asked for before the work is done before it";
      for (Handle& handle : handles) handle.synchronize();
    }
  });
}

TEST(Horovod, knows_the_ranks_of_a_machine_and_those_across_machines) {
  run_horovod(5, quick(), [](Horovod& h) {
    const int expected[5][4] = {{0, 3, 0, 2}, {1, 3, 0, 2}, {0, 2, 1, 2}, {2, 3, 0, 1}, {1, 2, 1, 2}};
    const int* mine = expected[h.rank()];
    EXPECT_EQ(h.local_rank(), mine[0]);
    EXPECT_EQ(h.local_size(), mine[1]);
    EXPECT_EQ(h.cross_rank(), mine[2]);
    EXPECT_EQ(h.cross_size(), mine[3]);
  }, {"a", "a", "b", "a", "b"});
}

TEST(Horovod, writes_a_timeline_of_all_ranks) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "timeline.json").string();
  Options options = quick();
  options.timeline = file;
  options.marks_cycles = true;
  run_horovod(2, options, [](Horovod& h) {
    for (int step = 0; step < 2; ++step) {
      Floats a(10, 1.0f), gap(3), b(10, 1.0f);
      std::vector<Handle> handles;
      handles.push_back(h.all_reduce("a", tensor_of(a)));
      handles.push_back(h.all_reduce("b", tensor_of(b)));
      for (Handle& handle : handles) handle.synchronize();
      h.broadcast("c", tensor_of(a), 0).synchronize();
    }
  });
  const auto trace = nlohmann::json::parse(std::ifstream(file));
  std::map<std::pair<int, std::string>, int> phases;
  for (const auto& e : trace.at("traceEvents"))
    if (e.at("ph") == "X") {
      EXPECT_GE(e.at("dur").get<double>(), 0);
      ++phases[{e.at("pid").get<int>(), e.at("name").get<std::string>()}];
    }
  for (const int rank : {0, 1}) {
    for (const char* phase : {"NEGOTIATE_ALLREDUCE", "QUEUE", "WAIT_FOR_DATA", "ALLREDUCE"}) EXPECT_GE((phases[{rank, phase}]), 4) << phase;
    EXPECT_EQ((phases[{rank, "NEGOTIATE_BROADCAST"}]), 2);
    EXPECT_EQ((phases[{rank, "BROADCAST"}]), 2);
  }
}

TEST(Horovod, refuses_a_timeline_that_cannot_be_written_before_it_begins) {
  Options options = quick();
  options.timeline = "/nowhere/timeline.json";
  EXPECT_THROW(run_horovod(2, options, [](Horovod&) {}), Error);
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
  const Options o = with({{"HOROVOD_FUSION_THRESHOLD", "1000"}, {"HOROVOD_CYCLE_TIME", "2.5"}, {"HOROVOD_CACHE_CAPACITY", "0"}, {"HOROVOD_STALL_CHECK_TIME_SECONDS", "7"},
                          {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "9"}, {"HOROVOD_TIMELINE", "t.json"}, {"HOROVOD_TIMELINE_MARK_CYCLES", "1"}, {"HOROVOD_AUTOTUNE", "1"},
                          {"HOROVOD_AUTOTUNE_LOG", "log"}, {"HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "1"}, {"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "4"}});
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
  EXPECT_EQ(message_of<UsageError>([&] { with({{"HOROVOD_FUSION_THRESHOLD", "-1"}}); }), "HOROVOD_FUSION_THRESHOLD: '-1'; accepted: a number from 0 to 1099511627776");
  EXPECT_EQ(message_of<UsageError>([&] { with({{"HOROVOD_CACHE_CAPACITY", "12x"}}); }), "HOROVOD_CACHE_CAPACITY: '12x'; accepted: a number from 0 to 1048576");
  EXPECT_EQ(message_of<UsageError>([&] { with({{"HOROVOD_AUTOTUNE", "yes"}}); }), "HOROVOD_AUTOTUNE: 'yes'; accepted: 0, 1");
}

TEST(HorovodAutotuner, ends_within_5_percent_of_the_best_of_the_grid_where_samples_are_disturbed) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const std::vector<Tuned> grid = Autotuner::candidates();
    std::map<std::pair<std::int64_t, double>, double> speeds;
    double best = 0;
    for (const Tuned& t : grid) best = std::max(best, speeds[{t.fusion_bytes, t.cycle_ms}] = 1e9 * (1 + static_cast<double>(random() % 1000) / 500));
    Autotuner tuner({.tuning_warmup_samples = 1, .tuning_steps = 2});
    auto now = Autotuner::Clock::time_point(std::chrono::hours(1));
    for (int i = 0; i < 10'000 && !tuner.done(); ++i) {
      const Tuned& t = tuner.current();
      const double noise = 1 + 0.01 * (static_cast<double>(random() % 200) / 100 - 1);
      now += std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 * 1e6 / (speeds.at({t.fusion_bytes, t.cycle_ms}) * noise)));
      (void)tuner.reduced("a", 1'000'000, now);
    }
    ASSERT_TRUE(tuner.done());
    EXPECT_GE(speeds.at({tuner.current().fusion_bytes, tuner.current().cycle_ms}), 0.95 * best) << "seed " << seed;
  }
}

TEST(HorovodAutotuner, gives_every_rank_what_rank_0_found) {
  Options options = quick();
  options.tunes = true;
  options.tuning_warmup_samples = 1;
  options.tuning_steps = 1;
  std::vector<Tuned> found(3);
  run_horovod(3, options, [&](Horovod& h) {
    for (int step = 0; step < 500; ++step) {
      Floats a(100, 1.0f);
      h.all_reduce("a", tensor_of(a)).synchronize();
    }
    found[at(h.rank())] = h.statistics().tuned;
  });
  const auto grid = Autotuner::candidates();
  EXPECT_NE(std::ranges::find(grid, found[0]), grid.end());
  EXPECT_EQ(found[1], found[0]);
  EXPECT_EQ(found[2], found[0]);
}

}  // namespace
}  // namespace gemel::parallel::horovod
