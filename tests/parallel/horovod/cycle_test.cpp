// Horovod's cycles on ranks that are threads of this process: what they compute, and how often they meet.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <utility>

#include "engine/base/numbers.h"
#include "tests/support/device/test_device.h"
#include "tests/support/ranks/horovod_ranks.h"
#include "tests/support/ranks/rank_contents.h"
#include "tests/support/temporary_folder.h"

namespace gemel::parallel::horovod {
namespace {

using namespace gemel::testing;

TEST(Horovod, sums_averages_and_scales_what_all_ranks_ask_for) {
  for (const int ranks : {1, 2, 3, 4})
    run_horovod(ranks, quick(), [&](NamedCollectives& h) {
      Floats a(1000, static_cast<float>(h.rank() + 1)), b = a, c = a, d = a;
      Handle mean = h.all_reduce("a", tensor_of(a)), sum = h.all_reduce("b", tensor_of(b), {.reduction = Reduction::sum, .prescale = 0.5, .postscale = 4});
      Handle most = h.all_reduce("c", tensor_of(c), {.reduction = Reduction::max}),
             half = h.all_reduce("d", tensor_of(d), {.reduction = Reduction::sum, .wire = DType::float16});
      for (Handle* handle : {&mean, &sum, &most, &half}) handle->synchronize();
      const float all = static_cast<float>(ranks * (ranks + 1)) / 2;
      EXPECT_EQ(a, Floats(1000, all / static_cast<float>(ranks)));
      EXPECT_EQ(b, Floats(1000, 2 * all));
      EXPECT_EQ(c, Floats(1000, static_cast<float>(ranks)));
      EXPECT_EQ(d, Floats(1000, all)) << "small whole numbers are exact in float16";
    });
}

TEST(Horovod, rounds_to_two_bytes_only_what_travels) {
  run_horovod(2, quick(), [](NamedCollectives& h) {
    Floats a{1 + 1e-6f, 70000, 0.1f};
    h.all_reduce("a", tensor_of(a), {.wire = DType::float16}).synchronize();
    EXPECT_EQ(a[0], 1);
    EXPECT_TRUE(std::isinf(a[1])) << "beyond what float16 holds";
    EXPECT_NEAR(a[2], 0.1, 0.1 / 2048);
  });
}

TEST(Horovod, gathers_broadcasts_scatters_and_exchanges) {
  for (const int ranks : {1, 2, 3})
    run_horovod(ranks, quick(), [&](NamedCollectives& h) {
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
    out.push_back({fmt::format("tensor.{}", i), std::array{DType::float32, DType::float16, DType::bfloat16, DType::int32, DType::int64}[random() % 5],
                   1 + static_cast<std::int64_t>(random() % 300)});
  return out;
}

/// Whole numbers, whose sums over ranks are exact in every type: below 256, as bfloat16 holds.
Numbers small_numbers(std::size_t tensor, int rank, int step, std::int64_t count) {
  Numbers out(at(count));
  for (std::size_t k = 0; k < out.size(); ++k)
    out[k] = static_cast<double>((tensor + 3 * static_cast<std::size_t>(rank) + 5 * static_cast<std::size_t>(step) + 7 * k) % 32);
  return out;
}

TEST(Horovod, sums_200_tensors_asked_for_in_another_random_order_on_every_rank_with_one_exchange_of_bits_a_cycle) {
  const std::vector<Drawn> drawn = drawn_tensors(200);
  const int steps = is_full_run() ? 1000 : 100;
  for (const int ranks : {2, 4})
    run_horovod(ranks, {.fusion_bytes = 20'000, .cycle_ms = 0.2}, [&](NamedCollectives& h) {
      Floats large(20'000, 1.0f);  // it is packed, as it is narrowed: there is memory for all that are fused from then on
      h.all_reduce("large", tensor_of(large), {.wire = DType::float16}).synchronize();
      std::mt19937 random(static_cast<unsigned>(h.rank()));
      NamedCollectives::Statistics warm;
      for (int step = 0; step < steps; ++step) {
        std::vector<std::size_t> order(drawn.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::ranges::shuffle(order, random);
        std::vector<Bytes> held(drawn.size());
        std::vector<Handle> handles;
        for (const std::size_t i : order) {
          const Drawn& d = drawn[i];
          held[i] = bytes_from_numbers(d.dtype, small_numbers(i, h.rank(), step, d.count));
          handles.push_back(h.all_reduce(d.name, {host_buffer(held[i]), Shape{d.count}, d.dtype}, {.reduction = Reduction::sum}));
        }
        for (Handle& handle : handles) handle.synchronize();
        for (std::size_t i = 0; i < drawn.size(); ++i) {
          Numbers sum(at(drawn[i].count));
          for (int r = 0; r < ranks; ++r) std::ranges::transform(sum, small_numbers(i, r, step, drawn[i].count), sum.begin(), std::plus<>());
          ASSERT_EQ(numbers_from_bytes(drawn[i].dtype, held[i]), sum) << drawn[i].name << " of step " << step;
        }
        if (step == 2) warm = h.statistics();
      }
      const NamedCollectives::Statistics end = h.statistics();
      EXPECT_EQ(end.negotiations, warm.negotiations) << "what the ranks agreed on needs bits alone";
      EXPECT_EQ(end.bit_exchanges, end.cycles);
      EXPECT_EQ(end.tensors, 1 + std::int64_t{200} * steps);
      EXPECT_LT(end.all_reduces, end.tensors / 2) << "small tensors are fused";
    });
}

TEST(Horovod, reduces_what_comes_in_one_cycle_by_one_all_reduce_for_each_fused_group) {
  constexpr std::int64_t kMost = 20'000;
  const std::vector<Drawn> drawn = drawn_tensors(200);
  std::vector<Request> requests;
  for (const Drawn& d : drawn) requests.push_back({.name = d.name, .dtype = d.dtype, .shape = Shape{d.count}, .wire = d.dtype});
  const auto groups = std::ssize(fused(requests, kMost));
  ASSERT_GT(groups, 5) << "more than one of a type";
  run_communicating_ranks(3, [&](CommunicationThread& communication) {
    NamedCollectives h(communication, {.fusion_bytes = kMost, .cycle_ms = 0.1, .cache_capacity = 0});  // what is negotiated keeps rank 0's order
    for (int step = 0; step < 3; ++step) {
      std::promise<void> begun, asked;
      auto held_back = communication.submit([&](Collectives&) {  // no cycle begins until all is asked for
        begun.set_value();
        asked.get_future().wait();
      });
      begun.get_future().wait();
      const std::int64_t before = h.statistics().all_reduces;
      std::vector<Bytes> held;
      std::vector<Handle> handles;
      for (const Drawn& d : drawn) {
        held.push_back(contents(d.dtype, h.rank(), d.count));
        handles.push_back(h.all_reduce(d.name, {host_buffer(held.back()), Shape{d.count}, d.dtype}, {.reduction = Reduction::sum}));
      }
      asked.set_value();
      held_back.get();
      for (Handle& handle : handles) handle.synchronize();
      EXPECT_EQ(h.statistics().all_reduces - before, groups);
    }
    h.shutdown();
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
  requests[4].group = "of two kinds";
  requests[1].group = "of two kinds";
  EXPECT_EQ(fused(requests, 84), (Groups{{0, 3}, {1}, {2, 4}, {5}})) << "a group's parts of other types are reduced apart";
  requests[0].group = {};
  requests[4].group = "together";
  EXPECT_EQ(fused(requests, 120), (Groups{{0, 2}, {1}, {3, 4}, {5}})) << "of a group all fits, or none of it is joined to others";
}

TEST(Horovod, carries_out_a_group_only_when_all_of_it_is_there) {
  run_horovod(2, {.cycle_ms = 0.1}, [](NamedCollectives& h) {
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

TEST(Horovod, carries_out_a_group_of_which_only_some_were_agreed_on_before) {
  const auto sum = [](NamedCollectives& h, std::vector<std::size_t> sizes) {
    std::vector<Floats> held;
    for (const std::size_t n : sizes) held.emplace_back(n, 1.0f);
    std::vector<NamedCollectives::Named> named;
    for (Floats& f : held) named.push_back({std::string(1, static_cast<char>('a' + named.size())), tensor_of(f)});
    const std::int64_t before = h.statistics().all_reduces;
    for (Handle& handle : h.grouped_all_reduce("g", std::move(named), {.reduction = Reduction::sum})) handle.synchronize();
    EXPECT_EQ(h.statistics().all_reduces - before, 1);
    for (const Floats& f : held) EXPECT_EQ(f, Floats(f.size(), 2.0f));
  };
  run_horovod(2, quick(), [&](NamedCollectives& h) {
    for (std::size_t size = 1; size < 4; ++size) sum(h, {size, 5});
  });
  run_horovod(2, {.cycle_ms = 0.1, .cache_capacity = 2}, [&](NamedCollectives& h) {
    for (int step = 0; step < 3; ++step) sum(h, {1, 2, 3});
  });
}

TEST(Horovod, a_rank_that_has_joined_changes_nothing_until_all_have) {
  run_horovod(3, quick(), [](NamedCollectives& h) {
    const int steps = 2 + 2 * h.rank();  // the data of rank 2 last longest
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (int step = 0; step < steps; ++step) {
        Floats a{3};
        h.all_reduce("a", tensor_of(a)).synchronize();
        const int with_data = step < 2 ? 3 : step < 4 ? 2 : 1;
        EXPECT_EQ(a[0], 3) << "a mean is over the ranks that have data";
        Floats b{3}, c{static_cast<float>(-1 - h.rank())};
        h.all_reduce("b", tensor_of(b), {.reduction = Reduction::sum}).synchronize();
        EXPECT_EQ(b[0], static_cast<float>(3 * with_data));
        h.all_reduce("c", tensor_of(c), {.reduction = Reduction::max}).synchronize();
        EXPECT_EQ(c[0], with_data == 3 ? -1 : with_data == 2 ? -2 : -3) << "what a rank without data adds changes nothing";
        Floats rows{1};
        const auto received = h.all_gather("rows", tensor_of(rows)).synchronize().received;
        EXPECT_EQ(std::ranges::count_if(received, [](const Bytes& bytes) { return !bytes.empty(); }), with_data);
      }
      EXPECT_EQ(h.join().synchronize().last_joined, 2);
    }
  });
}

TEST(Horovod, agrees_anew_where_a_size_changes) {
  run_horovod(2, {.cycle_ms = 0.1, .cache_capacity = 2}, [](NamedCollectives& h) {
    for (int step = 0; step < 20; ++step)
      for (const char* name : {"a", "b", "c"}) {  // more than the cache holds
        Floats a(at(1 + step / 5), 1.0f);
        h.all_reduce(name, tensor_of(a), {.reduction = Reduction::sum}).synchronize();
        EXPECT_EQ(a, Floats(a.size(), 2.0f));
      }
    EXPECT_GT(h.statistics().negotiations, 3);
  });
  run_horovod(2, {.cycle_ms = 0.1, .cache_capacity = 0}, [](NamedCollectives& h) {
    for (int step = 0; step < 3; ++step) {
      Floats a{1};
      h.all_reduce("a", tensor_of(a), {.reduction = Reduction::sum}).synchronize();
      EXPECT_EQ(a[0], 2);
    }
    EXPECT_GE(h.statistics().negotiations, 3);
  });
}

TEST(Horovod, work_that_the_communication_thread_is_given_runs_in_its_order_among_requests_in_any) {
  run_communicating_ranks(3, [](CommunicationThread& communication) {
    NamedCollectives h(communication, quick());
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
  run_horovod(5, quick(),
              [](NamedCollectives& h) {
                const int expected[5][4] = {{0, 3, 0, 2}, {1, 3, 0, 2}, {0, 2, 1, 2}, {2, 3, 0, 1}, {1, 2, 1, 2}};
                const int* mine = expected[h.rank()];
                EXPECT_EQ(h.local_rank(), mine[0]);
                EXPECT_EQ(h.local_size(), mine[1]);
                EXPECT_EQ(h.cross_rank(), mine[2]);
                EXPECT_EQ(h.cross_size(), mine[3]);
              },
              {"a", "a", "b", "a", "b"});
}

TEST(Horovod, writes_a_timeline_of_all_ranks) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "timeline.json").string();
  Options options = quick();
  options.timeline = file;
  options.marks_cycles = true;
  run_horovod(2, options, [](NamedCollectives& h) {
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

TEST(HorovodAutotuner, ends_within_5_percent_of_the_best_of_the_grid_where_samples_are_disturbed) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const std::vector<Tuned> grid = Autotuner::candidates();
    std::map<std::pair<std::int64_t, double>, double> speeds;
    double best = 0;
    for (const Tuned& t : grid) best = std::max(best, speeds[{t.fusion_bytes, t.cycle_ms}] = 1e9 * (1 + static_cast<double>(random() % 1000) / 500));
    Autotuner tuner({.tuning_warmup_samples = 1, .tuning_steps = 1 + seed % 2});
    auto now = Autotuner::Clock::time_point(std::chrono::hours(1));
    const Request a{.name = "a", .shape = Shape{125'000}}, b{.name = "b", .shape = Shape{125'000}};
    const Request* const together[] = {&a, &b};
    for (int i = 0; i < 10'000 && !tuner.done(); ++i) {
      const Tuned& t = tuner.current();
      const double noise = 1 + 0.01 * (static_cast<double>(random() % 200) / 100 - 1);
      now += std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 * 1e6 / (speeds.at({t.fusion_bytes, t.cycle_ms}) * noise)));
      (void)tuner.reduced(together, now);
    }
    ASSERT_TRUE(tuner.done());
    EXPECT_GE(speeds.at({tuner.current().fusion_bytes, tuner.current().cycle_ms}), 0.95 * best) << "seed " << seed;
  }
}

/// Those that are left have twice as many behind each halving.
std::int64_t samples_until_done(std::size_t candidates) {
  std::int64_t out = 0, before = 0, each = 1;
  for (std::size_t left = candidates; left > 1; left = (left + 1) / 2) {
    out += static_cast<std::int64_t>(left) * (each - before);
    before = std::exchange(each, 2 * each);
  }
  return out;
}

TEST(HorovodAutotuner, gives_every_rank_what_rank_0_found) {
  const TemporaryFolder folder;
  Options options = quick();
  options.tunes = true;
  options.tuning_log = (folder.path() / "log").string();
  options.tuning_warmup_samples = 1;
  options.tuning_steps = 1;
  std::array<std::vector<Tuned>, 3> used;  // [rank] in turn
  run_horovod(3, options, [&](NamedCollectives& h) {
    std::vector<Tuned>& mine = used[at(h.rank())];
    for (int step = 0; step < 500; ++step) {
      Floats a(100, 1.0f);
      h.all_reduce("a", tensor_of(a)).synchronize();
      if (const Tuned now = h.statistics().tuned; mine.empty() || mine.back() != now) mine.push_back(now);
    }
  });
  const auto grid = Autotuner::candidates();
  for (const Tuned& t : grid) EXPECT_NE(std::ranges::find(used[0], t), used[0].end()) << "all of the grid are tried: " << t.fusion_bytes << ", " << t.cycle_ms;
  std::ifstream log(options.tuning_log);
  const auto samples = std::count(std::istreambuf_iterator<char>(log), {}, '\n') - 1;
  EXPECT_EQ(samples, samples_until_done(grid.size())) << "it has ended";
  for (const auto& theirs : used) EXPECT_EQ(theirs.back(), used[0].back());
}

}  // namespace
}  // namespace gemel::parallel::horovod
