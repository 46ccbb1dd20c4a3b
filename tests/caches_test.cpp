// Caches of compiled kernels that are damaged, full, or someone else's, and what a run makes of them. On PoCL, which cannot do without.
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "tests/job.h"
#include "tests/mutation.h"
#include "tests/test_device.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;

/// Each test has a cache of its own, which begins with what the model of these tests needs where it is not to be compiled anew. No run may hang.
class Caches : public Job {
 protected:
  void SetUp() override {
    if (!test_device().profile().is_pocl()) GTEST_SKIP() << "of PoCL's cache";
  }

  static Words small() { return {"train", "--model", "perceptron", "--batch-size", "8", "--limit", "16", "--eval-every", "0"}; }

  /// @param prepare  runs after the environment is set
  std::function<void()> with_cache(const std::string& cache, const std::function<void()>& prepare = {}) const {
    return [=] {
      for (const char* name : {"POCL_CACHE_DIR", "XDG_CACHE_HOME", "TMPDIR"}) ::unsetenv(name);
      ::setenv("GEMEL_CACHE_DIR", cache.c_str(), 1);
      if (prepare) prepare();
    };
  }
  static constexpr std::chrono::seconds kLongest{120};
  Outcome run_small(const std::function<void()>& prepare = {}) { return finish_within(kLongest, start(small(), with_cache(cache(), prepare))); }

  /// A long run that has got to its steps.
  pid_t start_in_steps() {
    const pid_t child = start(joined(small(), {"--epochs", "100000", "--log-dir", in_folder("log")}), with_cache(cache()));
    EXPECT_TRUE(begins(child, "log"));
    return child;
  }

  std::string cache() const { return in_folder("cache"); }
  /// A cache with the kernels of the model.
  void warm() {
    static const TemporaryFolder once;
    const fs::path kept = once / "cache";
    if (!fs::exists(kept)) {
      const Outcome o = run(small(), with_cache(kept.string()));
      ASSERT_EQ(o.status, 0) << o.err;
    }
    kept_ = kept.string();
    fs::copy(kept, cache(), fs::copy_options::recursive);
  }
  std::vector<fs::path> compiled() const { return compiled_in(cache()); }
  static std::vector<fs::path> compiled_in(const fs::path& cache) {
    std::vector<fs::path> out;
    for (const auto& entry : fs::recursive_directory_iterator(cache))
      if (entry.is_regular_file() && (entry.path().extension() == ".so" || entry.path().extension() == ".bc")) out.push_back(entry.path());
    std::ranges::sort(out);
    return out;
  }

  /// Puts the cache on a disk of the program's own, of so many MiB.
  void move_to_small_disk(int megabytes) const {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", cache().c_str(), "tmpfs", 0, ("size=" + std::to_string(megabytes) + "m").c_str()) != 0)
      ::_exit(kNoDisk);
    fs::copy(kept_, cache(), fs::copy_options::recursive);
  }
  /// Some kernels are still to be compiled.
  static void forget_kernels(const fs::path& cache, std::size_t count) {
    for (const fs::path& file : compiled_in(cache))
      if (file.extension() == ".so" && count-- > 0) fs::remove(file);
  }
  static constexpr int kNoDisk = 77;

 private:
  std::string kept_;  // the cache that others are copied from
};

TEST_F(Caches, that_are_damaged_are_compiled_again) {
  std::mt19937_64 random(2);
  const char* wanted = std::getenv("GEMEL_TEST_MUTATIONS");
  constexpr int kAtOnce = 4;  // of a run
  const int count = wanted ? std::atoi(wanted) : is_full_run() ? 100 : kAtOnce;
  warm();
  for (int done = 0; done < count; done += kAtOnce) {
    const auto files = compiled();
    std::string all;
    for (int i = 0; i < kAtOnce; ++i) {
      const fs::path file = files.at(random() % files.size());
      all += mutate(file, random) + " of " + file.string() + "\n";
    }
    const Outcome o = run_small();
    ASSERT_EQ(o.status, 0) << all << o.err;
  }
}

TEST_F(Caches, are_told_of_and_emptied_after_a_crash) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer ends the program in its own way";
#endif
  warm();
  const pid_t child = start_in_steps();
  ::kill(child, SIGSEGV);
  EXPECT_EQ(finish_within(std::chrono::seconds(5), child).status, 128 + SIGSEGV);
  const Outcome o = run({"devices"}, with_cache(cache()));
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.err.rfind("gemel: warning: kernel cache: an earlier run crashed; " + cache() + "/pocl/", 0), 0u) << o.err;
  EXPECT_TRUE(compiled().empty());
}

TEST_F(Caches, on_a_full_disk_are_told_of_and_the_run_goes_on) {
  warm();
  const Outcome o = run_small([this] {
    move_to_small_disk(12);
    forget_kernels(cache(), 2);
  });
  if (o.status == kNoDisk) GTEST_SKIP() << "no disk can be mounted here";
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.err.rfind("gemel: warning: kernel cache: " + cache() + "/pocl/", 0), 0u) << o.err;
  EXPECT_NE(o.err.find(" cannot be written: No space left on device; PoCL compiles into "), std::string::npos) << o.err;
}

TEST_F(Caches, that_the_user_named_are_left_where_they_are_full) {
  if (!is_full_run()) GTEST_SKIP() << "with --full";
  warm();
  const std::string users = fs::directory_iterator(cache() + "/pocl")->path();
  const Outcome o = run_small([&] {
    move_to_small_disk(12);
    forget_kernels(cache(), 2);
    ::setenv("POCL_CACHE_DIR", users.c_str(), 1);
  });
  if (o.status == kNoDisk) GTEST_SKIP() << "no disk can be mounted here";
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.err.rfind("gemel: warning: kernel cache: " + users + " cannot be written: No space left on device", 0), 0u) << o.err;
}

TEST_F(Caches, that_fill_during_a_run_are_left_for_another_place) {
  if (!is_full_run()) GTEST_SKIP() << "with --full: it goes by how fast a disk fills";
  warm();
  fs::remove(folder() / "err");  // an earlier run's words are no sign of this one
  const pid_t child = start(small(), with_cache(cache(), [this] {
    move_to_small_disk(64);
    forget_kernels(cache(), 8);
  }));
  const fs::path disk = "/proc/" + std::to_string(child) + "/root" + cache();
  until([&] { return !runs(child) || read_text(folder() / "err").find("model: ") != std::string::npos; }, kLongest);
  std::ofstream filling(disk / "filling");
  const std::string megabyte(1 << 20, 'x');
  while (filling.write(megabyte.data(), std::ssize(megabyte)).flush()) std::this_thread::sleep_for(std::chrono::milliseconds(10));  // as a disk fills
  const Outcome o = finish_within(kLongest, child);
  if (o.status == kNoDisk) GTEST_SKIP() << "no disk can be mounted here";
  EXPECT_EQ(o.status, 0) << o.err;
  if (o.err.find("kernel cache: ") == std::string::npos) GTEST_SKIP() << "all was compiled before the disk was full";
  EXPECT_NE(o.err.find(" cannot be written: No space left on device; PoCL compiles into "), std::string::npos) << o.err;
}

TEST_F(Caches, with_room_nowhere_are_one_line) {
  warm();
  const Outcome o = run_small([] {
    const rlimit small{100'000, 100'000};
    ::setrlimit(RLIMIT_FSIZE, &small);
  });
  EXPECT_EQ(o.status, 1) << o.err;
  EXPECT_NE(lines_of(o.err).back().find("and no other folder can take what PoCL compiles (/tmp: File too large"), std::string::npos) << o.err;
}

TEST_F(Caches, of_another_user_are_named) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  warm();
  constexpr uid_t kNobody = 65534;
  for (const auto& entry : fs::directory_iterator(cache() + "/pocl")) ASSERT_EQ(::chown(entry.path().c_str(), kNobody, kNobody), 0);
  const Outcome asked = run_small();
  EXPECT_EQ(asked.status, 1) << asked.err;
  EXPECT_EQ(asked.err.rfind("gemel: GEMEL_CACHE_DIR: " + cache() + "/pocl/", 0), 0u) << asked.err;
  EXPECT_NE(asked.err.find(" belongs to another user: "), std::string::npos) << asked.err;
  fs::create_directory(in_folder("home"));
  fs::rename(cache(), in_folder("home/gemel"));
  const Outcome by_default = run(joined(small(), {"--memory-limit", "1000"}), with_cache("", [this] { ::setenv("XDG_CACHE_HOME", in_folder("home").c_str(), 1); }));
  EXPECT_EQ(by_default.err.rfind("gemel: warning: kernel cache: " + in_folder("home/gemel/pocl/"), 0), 0u) << by_default.err;
  EXPECT_NE(by_default.err.find(" belongs to another user: "), std::string::npos) << by_default.err;
  EXPECT_NE(by_default.err.find("the memory limit is reached"), std::string::npos) << "it goes on as it would: " << by_default.err;
}

/// The compiler of a driver takes the signal for itself, to remove its files, and returns from it.
TEST_F(Caches, are_no_hindrance_to_the_end_that_is_asked_for) {
  warm();
  const pid_t child = start_in_steps();
  ::kill(child, SIGQUIT);
  EXPECT_EQ(finish_within(std::chrono::seconds(5), child).status, 128 + SIGQUIT);
}

}  // namespace
}  // namespace gemel::testing
