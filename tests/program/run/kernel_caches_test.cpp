// Caches of compiled kernels that are damaged, full, or someone else's, and what a run makes of them. On PoCL, which cannot do without.
#include <elf.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>

#include "opencl/pocl/kernel_folder.h"
#include "tests/support/device/test_device.h"
#include "tests/support/faults/damaged_files.h"
#include "tests/support/program/job_fixture.h"

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
    kept_ = cold_run(1).cache;
    fs::remove_all(cache());
    fs::copy(kept_, cache(), fs::copy_options::recursive);
  }
  std::vector<fs::path> compiled() const { return compiled_in(cache()); }
  static std::vector<fs::path> compiled_in(const fs::path& cache) {
    auto out = compiled_in(cache, ".so");
    std::ranges::move(compiled_in(cache, ".bc"), std::back_inserter(out));
    std::ranges::sort(out);
    return out;
  }
  /// Without temporary files, which a driver had not finished.
  static std::vector<fs::path> compiled_in(const fs::path& cache, const char* extension) {
    std::vector<fs::path> out;
    for (const auto& entry : fs::recursive_directory_iterator(cache))
      if (entry.is_regular_file() && entry.path().extension() == extension && !entry.path().filename().string().starts_with("temp"))
        out.push_back(entry.path());
    return out;
  }

  /// Puts the cache on a disk of the program's own, of so many MiB. @param flags  of the mount
  void move_to_small_disk(int megabytes, unsigned long flags = 0) const {
    const std::string size = "size=" + std::to_string(megabytes) + "m";
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", cache().c_str(), "tmpfs", 0, size.c_str()) != 0)
      ::_exit(kNoDisk);
    fs::copy(kept_, cache(), fs::copy_options::recursive);
    if (flags != 0 && ::mount("tmpfs", cache().c_str(), "tmpfs", flags | MS_REMOUNT, size.c_str()) != 0) ::_exit(kNoDisk);
  }
  /// Some kernels are still to be compiled.
  static void forget_kernels(const fs::path& cache, std::size_t count) {
    for (const fs::path& file : compiled_in(cache))
      if (file.extension() == ".so" && count-- > 0) fs::remove(file);
  }
  static constexpr int kNoDisk = 77;

  /// A run that found no kernel compiled.
  struct Cold {
    std::string cache;  // as it left it
    std::chrono::milliseconds time;
    std::size_t kernels;
  };
  const Cold& cold_run(int ranks) {
    static const TemporaryFolder once;
    static std::map<int, Cold> all;
    if (const auto it = all.find(ranks); it != all.end()) return it->second;
    fs::remove_all(cache());
    const auto begin = std::chrono::steady_clock::now();
    const Outcome o = finish_within(kLongest, start_on(ranks));
    Cold cold{(once.path() / std::to_string(ranks)).string(), std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin),
              kernels_in(cache())};
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_GT(cold.kernels, 5u);
    EXPECT_EQ(lines_with("kernels: compiled ", o), std::ssize(compiled_in(cache(), ".so"))) << "each once, by all ranks together: " << o.err;
    fs::copy(cache(), cold.cache, fs::copy_options::recursive);
    return all.emplace(ranks, cold).first->second;
  }
  pid_t start_on(int ranks) {
    if (ranks > 1)
      on_ranks(ranks);
    else
      launcher_.clear();
    return start_job(joined(small(), ranks > 1 ? Words{"--parallel", "ddp"} : Words{}), with_cache(cache(), [] { ::setenv("GEMEL_VERBOSE", "kernels", 1); }));
  }
  /// Open MPI's launcher may wait for ever where a rank is killed while it starts.
  void end_of_killed(pid_t job) {
    if (!until([&] { return !runs(job); }, std::chrono::seconds(20))) {
      for (const pid_t p : children_of(job)) ::kill(p, SIGKILL);
      ::kill(job, SIGKILL);
    }
    finish(job);
  }
  static std::size_t kernels_in(const fs::path& cache) {
    std::error_code none;
    return fs::exists(cache, none) ? compiled_in(cache, ".so").size() : 0;
  }

  /// Its work-group functions consist of what is no instruction. In a new file, as a driver writes it.
  static void break_code_of(const fs::path& library) {
    std::string bytes = read_text(library);
    const auto at = [&]<class T>(T& out, std::size_t offset) { std::memcpy(&out, bytes.data() + offset, sizeof out); };
    Elf64_Ehdr header{};
    at(header, 0);
    for (std::size_t i = 0; i < header.e_shnum; ++i) {
      Elf64_Shdr section{};
      at(section, header.e_shoff + i * sizeof section);
      if (section.sh_type != SHT_PROGBITS || !(section.sh_flags & SHF_EXECINSTR)) continue;
      for (std::size_t b = 0; b < section.sh_size; ++b) bytes[section.sh_offset + b] = b % 2 == 0 ? '\x0f' : '\x0b';  // ud2; on Arm no instruction either
    }
    write_text(library.string() + "_", bytes);
    fs::rename(library.string() + "_", library);
  }

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

/// Whatever is killed, and when: while a kernel is compiled, or read, or runs.
TEST_F(Caches, lose_a_kernel_in_twenty_at_most_when_a_run_is_killed_and_one_of_few) {
  const char* wanted = std::getenv("GEMEL_TEST_KILLS");
  const int kills = wanted ? std::atoi(wanted) : is_full_run() ? 30 : 1;
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto draw = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
  for (int done = 0; done < kills; ++done) {
    const int ranks = kills == 1 || draw(2) == 0 ? 1 : 3;
    const Cold& cold = cold_run(ranks);
    if (HasFailure()) return;
    fs::remove_all(cache());
    if (kills > 1 && draw(4) == 0) fs::copy(cold.cache, cache(), fs::copy_options::recursive);
    const pid_t job = start_on(ranks);
    std::this_thread::sleep_for(std::chrono::milliseconds(draw(static_cast<std::size_t>(cold.time.count()))));
    constexpr std::array kSignals{SIGKILL, SIGSEGV, SIGABRT};
    const int signal = kSignals[draw(kSignals.size())];
    auto victims = ranks == 1 ? std::vector{job} : ranks_of(job);
    std::ranges::shuffle(victims, random);
    if (draw(2) == 0) victims.resize(std::min<std::size_t>(victims.size(), 1));
    for (const pid_t victim : victims) hit(victim, signal);
    end_of_killed(job);
    const std::size_t before = kernels_in(cache());
    const Outcome next = finish_within(kLongest, start_on(ranks));
    ASSERT_EQ(next.status, 0) << next.err;
    const auto compiled = static_cast<std::size_t>(lines_with("kernels: compiled ", next));
    EXPECT_LE(compiled + before, cold.kernels + std::max<std::size_t>(cold.kernels / 20, 1)) << "signal " << signal << ", ranks: " << ranks << "\n" << next.err;
  }
}

/// Its code is not that which was compiled, and the folder's manifest says that it is: no checksum tells.
TEST_F(Caches, compile_the_kernel_again_that_a_run_crashed_in_and_no_other) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer ends the program in its own way";
#endif
  warm();
  const auto kernels = compiled();
  const auto victim = std::ranges::find_if(kernels, [](const fs::path& file) { return file.filename() == "adam_update.so"; });
  ASSERT_NE(victim, kernels.end());
  {
    const opencl::KernelFolder folder(fs::directory_iterator(cache() + "/pocl")->path());
    break_code_of(*victim);
  }
  const Outcome crash = run_small();
  EXPECT_EQ(crash.status, 128 + SIGILL) << crash.err;
  const Outcome next = run_small([] { ::setenv("GEMEL_VERBOSE", "kernels", 1); });
  EXPECT_EQ(next.status, 0) << next.err;
  EXPECT_EQ(lines_with("gemel: warning: kernel cache: an earlier run crashed in " + victim->string() + "; it is compiled again", next), 1) << next.err;
  EXPECT_EQ(lines_with("kernels: compiled ", next), 1) << next.err;
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

TEST_F(Caches, that_nothing_can_be_loaded_from_are_left_for_another_place) {
  warm();
  // It compiles what finds out how memory is shared. All kernels of the model with --full.
  const Words more = is_full_run() ? Words{} : Words{"--memory-limit", "1000"};
  const Outcome o = finish_within(kLongest, start(joined(small(), more), with_cache(cache(), [this] { move_to_small_disk(64, MS_NOEXEC); })));
  if (o.status == kNoDisk) GTEST_SKIP() << "no disk can be mounted here";
  if (is_full_run())
    EXPECT_EQ(o.status, 0) << o.err;
  else
    EXPECT_NE(o.err.find("the memory limit is reached"), std::string::npos) << "it goes on as it would: " << o.err;
  EXPECT_EQ(o.err.rfind("gemel: warning: kernel cache: " + cache() + "/pocl/", 0), 0u) << o.err;
  EXPECT_NE(o.err.find(": nothing can be loaded from it as code, as where it is mounted noexec (Operation not permitted); PoCL compiles into "),
            std::string::npos)
      << o.err;
}

TEST_F(Caches, that_the_user_named_and_nothing_can_be_loaded_from_or_that_are_read_only_are_left_too) {
  if (!is_full_run()) GTEST_SKIP() << "with --full";
  warm();
  const std::string users = fs::directory_iterator(cache() + "/pocl")->path();
  const Outcome named = run_small([&] {
    move_to_small_disk(64, MS_NOEXEC);
    ::setenv("POCL_CACHE_DIR", users.c_str(), 1);
  });
  if (named.status == kNoDisk) GTEST_SKIP() << "no disk can be mounted here";
  EXPECT_EQ(named.status, 0) << named.err;
  EXPECT_EQ(named.err.rfind("gemel: warning: kernel cache: " + users + ": nothing can be loaded from it as code", 0), 0u) << named.err;
  const Outcome read_only = run_small([&] { move_to_small_disk(64, MS_RDONLY); });
  EXPECT_EQ(read_only.status, 0) << read_only.err;
  EXPECT_NE(read_only.err.find(" cannot be written: Read-only file system; PoCL compiles into "), std::string::npos) << read_only.err;
}

TEST_F(Caches, with_nothing_to_load_code_from_anywhere_are_one_line_that_names_each_place) {
  warm();
  const Outcome o = run_small([this] {
    move_to_small_disk(64, MS_NOEXEC);
    ::unsetenv("XDG_RUNTIME_DIR");
    for (const char* place : {"/tmp", "/var/tmp", "/dev/shm"}) {
      // What is mounted over /tmp hides the test's own folder, which is put back.
      const bool hides = cache().starts_with(place);
      const std::string kept = "/mnt";
      if (hides && ::mount(folder().c_str(), kept.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) ::_exit(kNoDisk);
      if (::mount("tmpfs", place, "tmpfs", MS_NOEXEC, "size=64m") != 0) ::_exit(kNoDisk);
      if (hides && (!fs::create_directories(folder()) || ::mount(kept.c_str(), folder().c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0)) ::_exit(kNoDisk);
    }
  });
  if (o.status == kNoDisk) GTEST_SKIP() << "no disk can be mounted here";
  EXPECT_EQ(o.status, 1) << o.err;
  const std::string last = lines_of(o.err).back(), why = ": nothing can be loaded from it as code, as where it is mounted noexec (Operation not permitted)";
  EXPECT_NE(last.find("and no other folder can take what PoCL compiles (/tmp" + why + ", /var/tmp" + why + ", /dev/shm" + why + ")"), std::string::npos)
      << o.err;
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
  const Outcome by_default =
      run(joined(small(), {"--memory-limit", "1000"}), with_cache("", [this] { ::setenv("XDG_CACHE_HOME", in_folder("home").c_str(), 1); }));
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
