// The folder of kernels that a driver compiled: what it meets there after damage, kills and crashes.
#include "opencl/pocl/kernel_folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <system_error>
#include <thread>

#include "tests/support/device/test_device.h"
#include "tests/support/faults/damaged_files.h"
#include "tests/support/faults/without_locks.h"
#include "tests/support/temporary_folder.h"

namespace gemel::opencl {
namespace {

namespace fs = std::filesystem;
using testing::read_text;
using testing::write_text;

class CompiledKernels : public ::testing::Test {
 protected:
  const fs::path& parent() const { return parent_.path(); }
  fs::path folder() const { return parent() / "kernels"; }
  fs::path file(const std::string& name) const { return folder() / name; }
  void write(const std::string& name, const std::string& content) const {
    fs::create_directories(file(name).parent_path());
    write_text(file(name), content);
  }
  /// As a driver does that compiles.
  void compile() const {
    const KernelFolder kernels(folder());
    for (const auto& [name, content] : compiled_) write(name, content);
  }
  /// Until the clock of the file system has moved on, so that times tell what is written from now on.
  static void wait_for_a_tick() { std::this_thread::sleep_for(KernelFolder::kTick + std::chrono::milliseconds(10)); }
  /// The checksums in the manifest become wrong: whoever compares them deletes the files.
  void spoil_checksums() const {
    std::string text = read_text(file("manifest"));
    for (std::size_t end = text.find(".so\n"); end != text.npos; end = text.find(".so\n", end + 1)) {
      const std::size_t checksum = text.rfind(' ', end) - 16;
      text.replace(checksum, 16, 16, '0');
    }
    write_text(file("manifest"), text);
  }
  bool stands(const std::string& name) const { return read_text(file(name)) == compiled_.at(name); }

  const std::map<std::string, std::string> compiled_{{"AB/CDE/program.bc", std::string(5000, 'b')},
                                                     {"AB/CDE/sum/1-1-1/sum.so", std::string(9000, 's')},
                                                     {"FG/HIJ/add/8-1-1/add.so", "short"},
                                                     {"FG/HIJ/program.bc", std::string(64, '\0')}};

 private:
  testing::TemporaryFolder parent_;
};

TEST_F(CompiledKernels, are_kept_from_one_process_to_the_next) {
  compile();
  const KernelFolder kernels(folder());
  for (const auto& [name, content] : compiled_) EXPECT_TRUE(stands(name)) << name;
}

TEST_F(CompiledKernels, are_gone_where_a_byte_differs_and_the_time_of_writing_does_not) {
  compile();
  const auto written = fs::last_write_time(file("AB/CDE/program.bc"));
  write("AB/CDE/program.bc", std::string(4999, 'b') + "c");
  fs::last_write_time(file("AB/CDE/program.bc"), written);
  const KernelFolder kernels(folder());
  EXPECT_FALSE(fs::exists(file("AB/CDE/program.bc")));
  EXPECT_TRUE(stands("AB/CDE/sum/1-1-1/sum.so"));
}

TEST_F(CompiledKernels, stay_where_only_times_differ) {
  compile();
  fs::copy(folder(), parent() / "copy", fs::copy_options::recursive);
  fs::remove_all(folder());
  fs::rename(parent() / "copy", folder());
  const KernelFolder kernels(folder());
  for (const auto& [name, content] : compiled_) EXPECT_TRUE(stands(name)) << name;
}

TEST_F(CompiledKernels, are_not_read_where_their_times_say_that_nothing_was_written) {
  compile();
  wait_for_a_tick();
  { const KernelFolder kernels(folder()); }  // notes the times
  spoil_checksums();
  const KernelFolder kernels(folder());
  for (const auto& [name, content] : compiled_) EXPECT_TRUE(stands(name)) << name;
}

TEST_F(CompiledKernels, are_read_where_their_times_differ) {
  compile();
  wait_for_a_tick();
  { const KernelFolder kernels(folder()); }
  spoil_checksums();
  fs::last_write_time(file("AB/CDE/sum/1-1-1/sum.so"), fs::file_time_type::clock::now());
  const KernelFolder kernels(folder());
  EXPECT_FALSE(fs::exists(file("AB/CDE/sum/1-1-1/sum.so")));
  EXPECT_TRUE(stands("FG/HIJ/add/8-1-1/add.so"));
}

TEST_F(CompiledKernels, that_another_process_replaced_are_noted_anew_and_those_written_to_are_not) {
  compile();
  {
    const KernelFolder kernels(folder());
    write("FG/HIJ/tempfile_1", "compiled again");
    fs::rename(file("FG/HIJ/tempfile_1"), file("FG/HIJ/add/8-1-1/add.so"));
    write("AB/CDE/sum/1-1-1/sum.so", "damaged");
  }
  const KernelFolder kernels(folder());
  EXPECT_EQ(read_text(file("FG/HIJ/add/8-1-1/add.so")), "compiled again");
  EXPECT_FALSE(fs::exists(file("AB/CDE/sum/1-1-1/sum.so")));
}

TEST_F(CompiledKernels, have_no_pipe_beside_them_that_would_be_waited_for) {
  compile();
  ASSERT_EQ(::mkfifo(file("AB/CDE/last_accessed").c_str(), 0600), 0);
  const KernelFolder kernels(folder());
  EXPECT_FALSE(fs::exists(file("AB/CDE/last_accessed")));
  EXPECT_TRUE(stands("AB/CDE/program.bc"));
}

TEST_F(CompiledKernels, have_no_folder_in_the_place_of_one) {
  compile();
  const std::string kernel = "AB/CDE/sum/1-1-1/sum.so", mark = "AB/CDE/last_accessed";
  fs::remove(file(kernel));
  fs::create_directories(file(kernel) / "a/b");
  fs::create_directories(file(mark));
  const KernelFolder kernels(folder());
  EXPECT_FALSE(fs::exists(file(kernel)));
  EXPECT_FALSE(fs::exists(file(mark)));
  EXPECT_TRUE(stands("AB/CDE/program.bc"));
  fs::create_directories(file(kernel));
  const KernelFolder beside(folder());
  EXPECT_FALSE(fs::exists(file(kernel))) << "another process is at it, but no driver makes such";
}

TEST_F(CompiledKernels, that_no_manifest_knows_are_swept) {
  compile();
  write("AB/CDE/max/1-1-1/max.so", "of a process that was killed");
  write("tempfile_a1b2c3.so.o", "half");
  write("tempfile_d4e5f6", "");
  const KernelFolder kernels(folder());
  EXPECT_FALSE(fs::exists(file("AB/CDE/max/1-1-1/max.so")));
  EXPECT_FALSE(fs::exists(file("tempfile_a1b2c3.so.o")));
  EXPECT_FALSE(fs::exists(file("tempfile_d4e5f6")));
  for (const auto& [name, content] : compiled_) EXPECT_TRUE(stands(name)) << name;
}

TEST_F(CompiledKernels, leave_no_temporary_files_behind_the_last_process) {
  {
    const KernelFolder first(folder());
    {
      const KernelFolder second(folder());
      write("tempfile_a1b2c3", "");
    }
    EXPECT_TRUE(fs::exists(file("tempfile_a1b2c3"))) << "the first may be writing it";
  }
  EXPECT_FALSE(fs::exists(file("tempfile_a1b2c3")));
}

TEST_F(CompiledKernels, of_another_process_that_is_at_it_stay) {
  compile();
  const KernelFolder first(folder());
  write("AB/CDE/max/1-1-1/max.so", "just compiled");
  write("AB/CDE/sum/1-1-1/sum.so", "damaged");
  const KernelFolder second(folder());
  EXPECT_TRUE(fs::exists(file("AB/CDE/max/1-1-1/max.so")));
  EXPECT_FALSE(fs::exists(file("AB/CDE/sum/1-1-1/sum.so")));
}

TEST_F(CompiledKernels, are_noted_by_each_of_those_who_compile) {
  {
    KernelFolder first(folder()), second(folder());
    write("AB/CDE/one.so", "1");
    first.note();
    write("AB/CDE/two.so", "2");
    second.note();
  }
  const KernelFolder kernels(folder());
  EXPECT_EQ(read_text(file("AB/CDE/one.so")), "1");
  EXPECT_EQ(read_text(file("AB/CDE/two.so")), "2");
}

TEST_F(CompiledKernels, go_where_an_earlier_run_crashed_in_them_and_the_others_stay) {
  compile();
  write("../others", "");
  fs::path mark;
  {
    const KernelFolder kernels(folder());
    mark = kernels.crash_mark();
    write_text(mark, "AB/CDE/sum/1-1-1/sum.so\n../others\n" + (parent() / "others").string() + "\nnone.so\n\nAB\n");  // as a signal's handler does, and worse
  }
  const KernelFolder kernels(folder());
  EXPECT_FALSE(fs::exists(file("AB/CDE/sum/1-1-1/sum.so")));
  for (const char* name : {"AB/CDE/program.bc", "FG/HIJ/add/8-1-1/add.so", "FG/HIJ/program.bc"}) EXPECT_TRUE(stands(name)) << name;
  EXPECT_TRUE(fs::exists(parent() / "others"));
  EXPECT_FALSE(fs::exists(mark));
}

TEST_F(CompiledKernels, that_were_noted_stay_when_their_process_is_killed_and_those_just_written_go) {
  const pid_t child = ::fork();
  if (child == 0) {
    KernelFolder kernels(folder());
    const auto compiled = [&](const char* name, const char* content) {
      wait_for_a_tick();
      write(name, content);
      return kernels.may_have_grown();
    };
    const bool first = compiled("one.so", "1");
    kernels.note();
    const bool second = compiled("two.so", "2");
    kernels.note();
    wait_for_a_tick();
    kernels.note();
    const bool without = kernels.may_have_grown(), third = compiled("three.so", "3");
    if (first && second && !without && third) ::kill(::getpid(), SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "it did not see when there was something to note";
  const KernelFolder kernels(folder());
  EXPECT_EQ(read_text(file("one.so")), "1");
  EXPECT_EQ(read_text(file("two.so")), "2");
  EXPECT_FALSE(fs::exists(file("three.so")));
}

TEST_F(CompiledKernels, are_noted_by_a_line_more_and_a_torn_line_costs_its_kernel_alone) {
  {
    KernelFolder kernels(folder());
    write("AB/CDE/one.so", "1");
    kernels.note();
    std::ofstream(kernels.manifest(), std::ios::app) << "12345 6 7";  // its writer was ended
    const std::string before = read_text(kernels.manifest());
    write("AB/CDE/two.so", "2");
    kernels.note();
    EXPECT_EQ(read_text(kernels.manifest()).rfind(before, 0), 0u);
  }
  const KernelFolder kernels(folder());
  EXPECT_EQ(read_text(file("AB/CDE/one.so")), "1");
  EXPECT_EQ(read_text(file("AB/CDE/two.so")), "2");
}

TEST_F(CompiledKernels, are_kept_and_checked_where_the_file_system_has_no_locks) {
  for (const int error : {ENOLCK, ENOSYS, EOPNOTSUPP, EBADF}) {
    const testing::WithoutLocks none(error);
    compile();
    write("AB/CDE/max/1-1-1/max.so", "of nobody knows whom");
    write("AB/CDE/sum/1-1-1/sum.so", "damaged");
    KernelFolder kernels(folder());
    EXPECT_TRUE(stands("FG/HIJ/add/8-1-1/add.so")) << error;
    EXPECT_FALSE(fs::exists(file("AB/CDE/sum/1-1-1/sum.so"))) << error;
    EXPECT_TRUE(fs::exists(file("AB/CDE/max/1-1-1/max.so"))) << "its writer may be at it: " << error;
  }
}

TEST_F(CompiledKernels, of_another_user_are_not_trusted) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  compile();
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::chown(folder().c_str(), kNobody, kNobody), 0);
  try {
    const KernelFolder kernels(folder());
    FAIL() << "it was taken";
  } catch (const std::system_error& e) {
    EXPECT_EQ(std::string(e.what()).rfind(folder().string() + " belongs to another user", 0), 0u) << e.what();
  }
}

/// The manifest is mutated too: it may name files that are not there, or other sizes.
TEST_F(CompiledKernels, are_whole_or_gone_after_any_mutation) {
  std::mt19937_64 random(1);
  const int count = testing::is_full_run() ? 1000 : 20;
  for (int i = 0; i < count; ++i) {
    compile();
    auto it = compiled_.begin();
    std::advance(it, random() % compiled_.size());
    const fs::path target = i % 5 == 0 ? folder() / "manifest" : file(it->first);
    const std::string what = testing::mutate(target, random);
    const KernelFolder kernels(folder());
    for (const auto& [name, content] : compiled_) EXPECT_TRUE(!fs::exists(file(name)) || stands(name)) << i << ": " << what << " of " << target << ": " << name;
  }
}

}  // namespace
}  // namespace gemel::opencl
