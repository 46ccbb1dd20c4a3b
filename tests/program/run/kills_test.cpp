// Runs with a checkpoint after each step that are killed at random moments - while kernels compile, in steps, while files are written - and go on
// to the bits of the run that nobody disturbed. GEMEL_TEST_KILLS=100: a hundred in all.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/datasets/texts_folder.h"
#include "tests/support/program/job_fixture.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;

struct Killed {
  const char* frontend;
  const char* data;
  int ranks;
};
void PrintTo(const Killed& k, std::ostream* out) { *out << k.frontend << ", " << k.data << ", ranks: " << k.ranks; }
const std::vector<Killed> kKilled{{"eager", "pictures", 1}, {"graph", "pictures", 1}, {"eager", "texts", 1}, {"graph", "texts", 1},
                                  {"eager", "pictures", 3}, {"graph", "pictures", 3}, {"eager", "texts", 3}, {"graph", "texts", 3}};

/// Kills of each form: all of them share what GEMEL_TEST_KILLS asks for.
int wanted_kills() {
  const char* all = std::getenv("GEMEL_TEST_KILLS");
  const int forms = static_cast<int>(kKilled.size());
  return all ? (std::atoi(all) + forms - 1) / forms : 0;
}

class Kills : public Job, public ::testing::WithParamInterface<Killed> {
 protected:
  static constexpr int kSteps = 16;  // four epochs of four

  void SetUp() override {
    if (GetParam().ranks > 1) Job::SetUp();
    if (IsSkipped()) return;
    if (wanted_kills() == 0) GTEST_SKIP() << "with GEMEL_TEST_KILLS=N";
    write_texts(folder(), 40, 9);
    if (GetParam().ranks > 1) on_ranks(GetParam().ranks);
  }

  Words arguments(const Words& more) const {
    const Killed& p = GetParam();
    Words out{"train", "--batch-size", "12", "--epochs", "4", "--optimizer", "adamw", "--eval-every", "0", "--frontend", p.frontend};
    out = p.data == std::string("texts") ? with_texts(folder(), "bert", out, {"--length-buckets", "on"}) : joined(out, {"--model", "lenet", "--limit", "40"});
    if (p.ranks > 1) out = joined(out, {"--parallel", p.frontend == std::string("eager") ? "ddp" : "horovod"});
    return joined(out, more);
  }
  Words resuming() const {
    return arguments({"--checkpoint-dir", in_folder("c"), "--checkpoint-every", "1", "--resume", "auto", "--log-dir", in_folder("log"), "--save",
                      in_folder("resumed.safetensors")});
  }
  /// @param caches  of compiled kernels
  pid_t start_with(const Words& words, const std::string& caches) {
    return start_job(words, [this, caches] {
      ::unsetenv("POCL_CACHE_DIR");
      ::setenv("GEMEL_CACHE_DIR", in_folder(caches).c_str(), 1);
    });
  }
  /// All of a job at once, one of its ranks, or its launcher alone: the others end by themselves.
  void kill_some_of(pid_t job) {
    const auto ranks = ranks_of(job);
    const auto which = draw(3);
    if (which == 1 && !ranks.empty())
      ::kill(ranks[draw(ranks.size())], SIGKILL);
    else
      ::kill(job, SIGKILL);
    if (which == 0)
      for (const pid_t p : ranks) ::kill(p, SIGKILL);
    finish_within(std::chrono::seconds(60), job);
    expect_gone(ranks, std::chrono::seconds(60));
  }
  std::size_t draw(std::size_t below) { return random_() % below; }

  std::set<std::string> names_in(const std::string& name) const {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(in_folder(name))) out.insert(entry.path().filename());
    return out;
  }
  void expect_the_whole_run() {
    EXPECT_TRUE(read_text(in_folder("resumed.safetensors")) == read_text(in_folder("whole.safetensors"))) << "the weights differ";
    EXPECT_EQ(names_in("c"), (std::set<std::string>{"checkpoint-15.safetensors", "checkpoint-16.safetensors"}));
    for (const std::string& name : names_in("log"))
      EXPECT_TRUE(name == "run.jsonl" || name == "summary.json" || name.starts_with("events.out.")) << "left over: " << name;
    std::vector<int> steps, all(kSteps);
    std::iota(all.begin(), all.end(), 1);
    for (const Json& e : events("log"))
      if (e["event"] == "step") steps.push_back(e["step"]);
    EXPECT_EQ(steps, all);
  }
  /// What killed compilations left is swept by the next process that has the cache alone.
  void expect_no_leftovers_in(const std::string& caches) {
    const Words launcher = std::exchange(launcher_, {});
    EXPECT_EQ(finish(start_with({"devices"}, caches)).status, 0);
    launcher_ = launcher;
    for (const auto& entry : fs::recursive_directory_iterator(in_folder(caches))) {
      const std::string name = entry.path().filename();
      EXPECT_FALSE(name.starts_with("temp") || name.starts_with(".gemel-")) << "left over: " << entry.path();
    }
  }

 private:
  const unsigned seed_ = std::random_device()();
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
  std::mt19937_64 random_{seed_};
};

TEST_P(Kills, at_any_moment_change_no_bit) {
  const auto begin = std::chrono::steady_clock::now();
  const Outcome whole = finish(start_with(arguments({"--save", in_folder("whole.safetensors")}), "warm"));
  ASSERT_EQ(whole.status, 0) << whole.err;
  const auto cold = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(finish(start_with(arguments({}), "warm")).status, 0);
  const auto warm = std::chrono::steady_clock::now() - begin - cold;

  const int count = wanted_kills();
  bool checked = false;
  for (int kills = 0; kills < count || !checked;) {
    // After the last kill a run is left alone. One in four has a cache of its own, which is emptied now and then: it compiles.
    const bool compiles = draw(4) == 0;
    const pid_t job = start_with(resuming(), compiles ? "cold" : "warm");
    if (kills < count) {
      const auto longest = std::chrono::duration_cast<std::chrono::milliseconds>(compiles ? cold : warm).count();
      std::this_thread::sleep_for(std::chrono::milliseconds(draw(static_cast<std::size_t>(longest))));
    }
    if (kills < count && runs(job)) {
      kill_some_of(job);
      ++kills;
      checked = false;
      if (draw(3) == 0) fs::remove_all(in_folder("cold"));
      continue;
    }
    const Outcome o = finish_within(std::chrono::seconds(300), job);
    ASSERT_EQ(o.status, 0) << "after " << kills << " kills: " << o.err;
    expect_the_whole_run();
    expect_no_leftovers_in(compiles ? "cold" : "warm");
    if (HasFailure()) return;
    checked = true;
    for (const char* name : {"c", "log", "resumed.safetensors"}) fs::remove_all(in_folder(name));
  }
}

INSTANTIATE_TEST_SUITE_P(, Kills, ::testing::ValuesIn(kKilled),
                         [](const auto& p) { return std::string(p.param.frontend) + "_" + p.param.data + "_on_" + std::to_string(p.param.ranks); });

}  // namespace
}  // namespace gemel::testing
