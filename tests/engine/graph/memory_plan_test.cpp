// The memory plan: nothing alive is overwritten, nothing is larger than it may be, and little is wasted.
#include "engine/graph/run/memory_plan.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/ops/ops.h"
#include "engine/passes/passes.h"
#include "frontends/cli/run/planned_step.h"
#include "frontends/domains/domain.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/train/tasks/task.h"
#include "tests/support/device/test_device.h"

namespace gemel::testing {
namespace {

constexpr std::int64_t kAlignment = 64;

/// First and last instruction at which each slot of the arena is needed.
struct Life {
  int first = -1, last = -1;
};
std::vector<Life> lives_of(const Program& program) {
  std::vector<Life> lives(program.slots.size());
  for (int i = 0; i < static_cast<int>(program.code.size()); ++i)
    for (const auto* uses : {&program.code[at(i)].inputs, &program.code[at(i)].outputs})
      for (const auto& u : *uses) {
        Life& life = lives[at(u.slot)];
        if (life.first < 0) life.first = i;
        life.last = i;
      }
  return lives;
}

/// Whether `later` is made by an instruction at which `earlier` is used for the last time, and may take its place.
bool takes_over(const Program& program, const std::vector<Life>& lives, std::size_t earlier, std::size_t later) {
  if (lives[earlier].last != lives[later].first) return false;
  const auto& step = program.code[at(lives[later].first)];
  for (const Reuse& r : step.op->may_reuse)
    if (step.inputs[at(r.input)].slot == static_cast<int>(earlier) && step.outputs[at(r.output)].slot == static_cast<int>(later)) return true;
  return false;
}

Program random_program(unsigned seed) {
  return capture(test_session(), {f32({17, 9})}, [&](const Values& in) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
    Values pool = in;
    for (int step = 0; step < 30; ++step) {
      const Value a = pool[below(pool.size())], b = pool[pool.size() - 1];
      switch (below(4)) {
        case 0:
          pool.push_back(matmul(a, transpose(b, {1, 0})));
          pool.back() = sum(pool.back(), {1}, Keep::yes) * a;
          break;
        case 1:
          pool.push_back(a + b);
          break;
        case 2:
          pool.push_back(tanh(a));
          break;
        default:
          pool.push_back(exp(softmax(b, 1)));
          break;
      }
    }
    return Values{pool.back()};
  });
}

TEST(Plan, what_lives_at_once_lies_apart) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Program program = random_program(seed);
    const MemoryPlan plan = plan_memory(program, kAlignment, 1 << 30);
    const std::vector<Life> lives = lives_of(program);
    std::size_t placed = 0;
    for (std::size_t a = 0; a < program.slots.size(); ++a) {
      if (plan.places[a].slab < 0) continue;
      ++placed;
      EXPECT_EQ(plan.places[a].offset % kAlignment, 0);
      EXPECT_LE(plan.places[a].offset + program.slots[a].bytes, plan.slab_bytes[at(plan.places[a].slab)]);
      for (std::size_t b = 0; b < program.slots.size(); ++b) {
        if (b == a || plan.places[b].slab != plan.places[a].slab || lives[b].first < lives[a].first || lives[b].first > lives[a].last) continue;
        const bool apart =
            plan.places[a].offset + program.slots[a].bytes <= plan.places[b].offset || plan.places[b].offset + program.slots[b].bytes <= plan.places[a].offset;
        EXPECT_TRUE(apart || takes_over(program, lives, a, b)) << "slots " << a << " and " << b << ", seed " << seed;
      }
    }
    EXPECT_GT(placed, 20u);
    EXPECT_GE(plan.arena_bytes, plan.lower_bound);
    EXPECT_GT(plan.lower_bound, 0);
  }
}

TEST(Plan, of_own_memory_places_nothing_and_counts_each_slot) {
  const Program program = random_program(5);
  const MemoryPlan shared = plan_memory(program, 1, 1 << 30), own = plan_own_memory(program);
  std::int64_t sum = 0;
  for (std::size_t s = 0; s < program.slots.size(); ++s) {
    EXPECT_EQ(own.places[s].slab, -1);
    if (shared.places[s].slab >= 0) sum += program.slots[s].bytes;
  }
  EXPECT_EQ(own.arena_bytes, sum);
  EXPECT_TRUE(own.slab_bytes.empty());
  EXPECT_GT(own.arena_bytes, shared.arena_bytes);
  EXPECT_EQ(own.lower_bound, shared.lower_bound);
}

/// A step as captured, and as it is run.
void expect_little_more_than_the_least(Session& session, train::Task& task, const Specs& batch, const std::string& name) {
  for (const cli::Work work : {cli::Work::train, cli::Work::infer}) {
    Program program = cli::capture_step(session, task, batch, work);
    const auto expect = [&](const Program& planned, const char* how) {
      const MemoryPlan plan = plan_memory(planned, kAlignment, std::int64_t{1} << 50);
      EXPECT_LE(static_cast<double>(plan.arena_bytes), 1.1 * static_cast<double>(plan.lower_bound))
          << name << (work == cli::Work::train ? ", training" : ", inference") << how;
    };
    expect(program, "");
    expect(optimise(session, std::move(program), parse_passes("all")), ", optimised");
  }
}

TEST(Plan, of_a_model_of_images_takes_a_tenth_more_than_the_least_at_most) {
  for (const std::string_view name : models::names()) {
    const auto session = Session::reference();
    const auto model = models::make(name, {.classes = 10});
    train::ClassificationTask task(*model, 10);
    const Shape image = models::usual_input(name);
    expect_little_more_than_the_least(*session, task, {f32({4, image[1], image[2], image[0]}), i64({4})}, std::string(name));
  }
}

TEST(Plan, of_a_model_of_texts_speech_or_ratings_takes_a_tenth_more_than_the_least_at_most) {
  struct Made {
    const char *model, *config, *input;
  };
  for (const auto& [name, config, input] : {Made{"bert", "small", "128"}, Made{"lstm_classifier", "small", "128"}, Made{"transformer", "small", "128"},
                                            Made{"gpt2", "small", "128"}, Made{"ncf", "tiny", "512x256"}, Made{"speech", "tiny", "400"}}) {
    const auto session = Session::reference();
    domains::RunOptions options;
    options.set("model", name, true);
    options.set("config", config, true);
    options.set("input", input, true);
    const auto workload = domains::made_up(options, 64).front().open();
    const auto model = workload->model();
    const auto task = workload->task(*model);
    expect_little_more_than_the_least(*session, *task, workload->batch(4), name);
  }
}

TEST(Plan, slabs_are_no_larger_than_an_allocation_may_be) {
  const std::int64_t most = 2048;  // a tensor has 17 x 17 x 4 = 1156 bytes at most
  const Program program = random_program(3);
  const MemoryPlan plan = plan_memory(program, kAlignment, most);
  EXPECT_GT(plan.slab_bytes.size(), 1u);
  std::int64_t total = 0;
  for (std::int64_t bytes : plan.slab_bytes) {
    EXPECT_LE(bytes, most);
    total += bytes;
  }
  EXPECT_EQ(total, plan.arena_bytes);
  EXPECT_THROW(plan_memory(program, kAlignment, 512), DeviceError);
}

}  // namespace
}  // namespace gemel::testing
