// gemel doctor: broken places, each of which it names, and the remedy that it gives for each.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>

#include "engine/base/error.h"
#include "frontends/cli/doctor/health_check.h"
#include "frontends/cli/doctor/isolated_checks.h"
#include "frontends/cli/doctor/mpi_checks.h"
#include "frontends/cli/doctor/print_findings.h"
#include "opencl/device/gpu_nodes.h"
#include "tests/support/device/test_device.h"
#include "tests/support/program/job_fixture.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

bool shell(const std::string& command) { return std::system(("{ " + command + "; } >/dev/null 2>&1").c_str()) == 0; }

void make_program(const fs::path& file, const std::string& script) {
  fs::create_directories(file.parent_path());
  write_text(file, "#!/bin/sh\n" + script + "\n");
  fs::permissions(file, fs::perms::owner_all);
}

class Doctor : public Job {
 protected:
  struct Told {
    std::string status, found, remedy;
  };
  struct Visit {
    int status = -1;
    std::map<std::string, Told> lines;
    std::string text;
    const Told& operator[](const std::string& name) const {
      static const Told none{"no such line", "", ""};
      const auto found = lines.find(name);
      return found == lines.end() ? none : found->second;
    }
  };

  /// Before the program, in the shell that becomes it.
  std::string place_;
  Words around_;  // what starts that shell

  /// Everything of the tests' own environment that a place may be judged by.
  static void clean() {
    for (const char* variable : {"POCL_CACHE_DIR", "OCL_ICD_VENDORS", "TMPDIR", "TEMP", "TMP"}) ::unsetenv(variable);
    std::vector<std::string> settings;
    for (char** one = environ; *one; ++one)
      if (const std::string name(*one, std::strcspn(*one, "=")); name.find("_MCA_") != name.npos) settings.push_back(name);
    for (const std::string& name : settings) ::unsetenv(name.c_str());
  }
  Visit visit(const Words& checks, const std::string& first = "") {
    launcher_ = joined(around_, {"sh", "-c", place_ + "\n" + first + "\nexec \"$0\" \"$@\""});
    const Outcome o = run(joined({"doctor", "--json"}, checks), clean);
    Visit out{.status = o.status, .text = o.out + o.err};
    const Json json = Json::parse(o.out, nullptr, false);
    if (json.is_discarded()) return out;
    for (const Json& c : json.at("checks")) {
      EXPECT_EQ(c.size(), 4u) << c;
      out.lines[c.at("name")] = {c.at("status"), c.at("found"), c.at("remedy")};
    }
    return out;
  }
  /// The line tells what is broken, and is ok after its remedy.
  void expect_mended(const std::string& line, const std::string& status, const std::string& found, const std::string& remedy, const Words& checks) {
    const Visit before = visit(checks);
    EXPECT_EQ(before[line].status, status) << before.text;
    EXPECT_NE(before[line].found.find(found), std::string::npos) << "wanted: " << found << "\ngot: " << before.text;
    EXPECT_TRUE(before[line].remedy.starts_with(remedy)) << "wanted: " << remedy << "\ngot: " << before.text;
    EXPECT_EQ(before.status, status == "wrong" ? 1 : 0) << before.text;
    const Visit after = visit(checks, before[line].remedy + " >&2");
    EXPECT_EQ(after[line].status, "ok") << "after `" << before[line].remedy << "`: " << after.text;
  }
  void expect_mended(const std::string& line, const std::string& status, const std::string& found, const std::string& remedy) {
    expect_mended(line, status, found, remedy, {line});
  }
  bool in_own(const std::string& namespaces) {
    if (!shell(fmt::format("unshare -r {} true", namespaces))) return false;
    around_ = {"unshare", "-r"};
    std::istringstream in(namespaces);
    for (std::string word; in >> word;) around_.push_back(word);
    return true;
  }
  /// A folder for the loader, with the broken driver beside the system's PoCL.
  std::string vendors() {
    fs::create_directories(folder() / "vendors");
    write_text(folder() / "vendors" / "broken.icd", std::string(GEMEL_BINARY_DIR) + "/tests/broken_driver.so\n");
    fs::copy_file("/etc/OpenCL/vendors/pocl.icd", folder() / "vendors" / "pocl.icd", fs::copy_options::overwrite_existing);
    return in_folder("vendors");
  }
  static bool has_pocl() { return fs::exists("/etc/OpenCL/vendors/pocl.icd"); }
};

TEST_F(Doctor, finds_nothing_wrong_where_the_tests_run) {
  const Visit v = visit({});
  EXPECT_EQ(v.status, 0) << v.text;
  for (const auto& [name, line] : v.lines) EXPECT_NE(line.status, "wrong") << name << ": " << line.found;
  for (const char* name : {"version",          "build",          "libraries",     "distribution", "processor", "cores",     "memory",   "limits",
                           "temporary-folder", "shared-memory",  "kernel-folder", "gpus",         "drivers",   "device",    "loopback", "host-name",
                           "scheduler",        "rank-variables", "mpi-settings",  "mpirun",       "slots",     "all-reduce"})
    EXPECT_FALSE(v[name].found.empty()) << name;
  EXPECT_NE(v["all-reduce"].found.find("2 ranks have the right sums"), std::string::npos) << v.text;
  if (!has_pocl()) return;
  EXPECT_NE(v["product-pocl-0"].found.find("a product of matrices is right"), std::string::npos) << v.text;
  EXPECT_NE(v["variants-pocl-0"].found.find("variants of kernels"), std::string::npos) << v.text;
}

TEST_F(Doctor, prints_lines_of_a_page_without_colours_where_it_is_no_terminal) {
  const Outcome o = run({"doctor", "version", "libraries", "distribution", "cores", "scheduler"}, [] {
    clean();
    ::setenv("SLURM_JOB_ID", "7", 1);
  });
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.out.find('\x1b'), std::string::npos);
  EXPECT_NE(o.out.find("\nscheduler     odd    variables of SLURM (SLURM_JOB_ID=7) without a job of it"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("\n                     -> unset SLURM_JOB_ID\n"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("\nnothing is wrong; "), std::string::npos) << o.out;
  for (const std::string& line : lines_of(o.out)) EXPECT_LE(line.size(), 100u) << line;
  expect_refused({"doctor", "cors"}, 2, "doctor: check 'cors' is unknown, did you mean 'cores'?; accepted: version, build, ");
}

TEST_F(Doctor, looks_at_any_line_by_its_name) {
  if (!has_pocl()) GTEST_SKIP() << "PoCL is not installed";
  const Visit v = visit({"product-pocl-0"});
  EXPECT_EQ(v["product-pocl-0"].status, "ok") << v.text;
  EXPECT_EQ(v.text.find("variants-"), std::string::npos) << v.text;
  expect_refused({"doctor", "device-pocl-77"}, 2, "doctor: check 'device-pocl-77' is unknown, did you mean 'device-pocl-0'?", clean);
  expect_refused({"doctor", "scheduler", "device-pocl-77"}, 2, "check 'device-pocl-77' is unknown", [] {
    clean();
    ::setenv("SLURM_JOB_ID", "7", 1);  // what is odd elsewhere says nothing of drivers
  });
  place_ = "export OCL_ICD_VENDORS=" + in_folder("empty");
  std::filesystem::create_directory(in_folder("empty"));
  EXPECT_EQ(visit({"device"})["device"].status, "wrong");
  const Visit none = visit({"drivers", "device", "device-pocl-0"});
  EXPECT_EQ(none.status, 1) << none.text;
  EXPECT_EQ(none["drivers"].status, "wrong") << none.text;
  EXPECT_TRUE(none["drivers"].found.starts_with("no OpenCL driver: ")) << none.text;
}

TEST_F(Doctor, says_what_is_wrong_in_place_of_a_line_that_does_not_come) {
  if (!has_pocl()) GTEST_SKIP() << "PoCL is not installed";
  place_ = fmt::format("export GEMEL_TEST_DRIVER=aborts OCL_ICD_VENDORS={}", vendors());
  const Visit v = visit({"product-broken-0"});
  EXPECT_EQ(v.status, 1) << v.text;
  EXPECT_EQ(v["drivers"].status, "wrong") << v.text;
}

TEST_F(Doctor, takes_a_rank_of_flux_for_one_of_a_live_job) {
  make_program(folder() / "flux-shell", "export FLUX_JOB_ID=f7 PMI_RANK=0 PMI_SIZE=2; sh -c '\"$0\" \"$@\"; true' \"$@\"; true");
  around_ = {in_folder("flux-shell")};
  const Visit v = visit({"scheduler", "rank-variables", "all-reduce"});
  EXPECT_EQ(v["scheduler"].found, "this process is of a job of Flux (FLUX_JOB_ID=f7)") << v.text;
  EXPECT_EQ(v["rank-variables"].status, "ok") << v.text;
  EXPECT_EQ(v["all-reduce"].found, "not tried: this process is of a job itself") << v.text;
}

TEST_F(Doctor, names_a_dev_shm_that_cannot_be_written) {
  if (!in_own("-m")) GTEST_SKIP() << "no mounts of its own can be made here";
  place_ = "mount -t tmpfs -o ro none /dev/shm";
  const Visit v = visit({"shared-memory"});
  EXPECT_EQ(v["shared-memory"].status, "odd") << v.text;
  EXPECT_EQ(v["shared-memory"].remedy, "mount -o remount,rw /dev/shm") << v.text;
}

TEST_F(Doctor, names_settings_of_open_mpi_that_keep_ranks_from_starting) {
  place_ = "export OMPI_MCA_pml=bogus";
  const Visit v = visit({"all-reduce"});
  EXPECT_EQ(v["all-reduce"].status, "wrong") << v.text;
  EXPECT_EQ(v["all-reduce"].remedy, "unset OMPI_MCA_pml");
  place_ = "export OMPI_MCA_pml=bogus OMPI_MCA_rmaps_base_mapping_policy=slot";
  EXPECT_EQ(visit({"all-reduce"})["all-reduce"].remedy, "unset OMPI_MCA_pml") << "the other one is hidden from mpirun";
}

TEST_F(Doctor, names_a_mask_of_one_core) {
  const std::string first = "first=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')";
  if (!shell("command -v taskset") || visit({"cores"})["cores"].found.starts_with("1 of ")) GTEST_SKIP() << "there is one core";
  place_ = first + "; taskset -cp $first $$ >/dev/null";
  expect_mended("cores", "odd", "1 of ", "taskset -cp 0-");
}

TEST_F(Doctor, names_a_folder_of_kernels_that_is_mounted_noexec) {
  if (!in_own("-m")) GTEST_SKIP() << "no mounts of its own can be made here";
  fs::create_directories(folder() / "kernels");
  place_ = fmt::format("mount -t tmpfs -o noexec none '{0}/kernels'; export GEMEL_CACHE_DIR='{0}/kernels' HOME='{0}'", folder().string());
  expect_mended("kernel-folder", "odd", in_folder("kernels") + " lies on a file system that is mounted noexec",
                "export GEMEL_CACHE_DIR=" + in_folder(".cache/gemel"));
}

TEST_F(Doctor, names_a_folder_of_kernels_that_is_a_file) {
  write_text(folder() / "file", "");
  place_ = fmt::format("export GEMEL_CACHE_DIR='{0}/file' HOME='{0}'", folder().string());
  expect_mended("kernel-folder", "wrong",
                in_folder("file") + " cannot be made: Not a directory; runs end: GEMEL_CACHE_DIR: ", "export GEMEL_CACHE_DIR=" + in_folder(".cache/gemel"));
}

TEST_F(Doctor, names_a_loader_without_drivers) {
  if (!has_pocl()) GTEST_SKIP() << "there is no driver that could come back";
  fs::create_directories(folder() / "none");
  place_ = "export OCL_ICD_VENDORS=" + in_folder("none");
  expect_mended("drivers", "wrong", "no OpenCL driver: " + in_folder("none") + " names none", "unset OCL_ICD_VENDORS");
}

TEST_F(Doctor, names_another_mpirun_that_is_first_in_the_path) {
  for (const char* version : {"mpirun (Open MPI) 3.1.0", "HYDRA build details:\n    Version:                                 4.0.2"}) {
    make_program(folder() / "bin" / "mpirun", fmt::format("echo '{}'", version));
    place_ = fmt::format("export PATH='{}':$PATH", in_folder("bin"));
    expect_mended("mpirun", "wrong", in_folder("bin/mpirun") + ": ", "export PATH=");
  }
  place_ = "export PATH=" + in_folder("bin");
  fs::remove(folder() / "bin" / "mpirun");
  EXPECT_EQ(visit({"mpirun"})["mpirun"].status, "odd");
}

TEST_F(Doctor, names_a_small_dev_shm) {
  if (!in_own("-m")) GTEST_SKIP() << "no mounts of its own can be made here";
  place_ = "[ $(df --output=size /dev/shm | tail -n 1) = 64 ] || mount -t tmpfs -o size=64k none /dev/shm";
  expect_mended("shared-memory", "odd", "64 KiB, 64 KiB free", "mount -o remount,size=");
}

TEST_F(Doctor, names_variables_of_schedulers_without_a_job) {
  place_ = "export SLURM_CONF=/etc/slurm.conf SLURM_JOB_ID=77 SLURM_NODELIST='node[17-18]' SLURM_TASKS_PER_NODE='2(x2)'";
  expect_mended("scheduler", "odd", "variables of SLURM (SLURM_JOB_ID=77) without a job of it", "unset SLURM_JOB_ID SLURM_NODELIST SLURM_TASKS_PER_NODE");
  place_ = "export PBS_JOBID=5 PBS_NODEFILE=/var/spool/pbs/5 LSB_JOBID=6";
  expect_mended("scheduler", "odd", "variables of PBS (PBS_JOBID=5) and LSF (LSB_JOBID=6) without", "unset PBS_JOBID PBS_NODEFILE LSB_JOBID");
  place_ = "export FLUX_JOB_ID=f7";
  expect_mended("scheduler", "odd", "variables of Flux (FLUX_JOB_ID=f7) without a job of it", "unset FLUX_JOB_ID");
  EXPECT_EQ(visit({"all-reduce"})["all-reduce"].status, "ok");
  place_ = "export OMPI_COMM_WORLD_RANK=1";
  expect_mended("rank-variables", "odd", "variables of Open MPI (OMPI_COMM_WORLD_RANK=1) without a job of it: a run takes itself for no rank by them",
                "unset OMPI_COMM_WORLD_RANK");
  place_ = "export OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_RANK=1 OMPI_MCA_btl=^uct";
  expect_mended("rank-variables", "wrong", "variables of Open MPI (OMPI_COMM_WORLD_RANK=1) without a job of it",
                "unset OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMIX_RANK");
  place_ = "export SLURM_JOBID=77 SLURM_NODELIST='gone[1-2]' SLURM_TASKS_PER_NODE='2(x2)'";
  EXPECT_EQ(visit({"all-reduce"})["all-reduce"].status, "ok") << "hidden from mpirun, as gemel launch does";
  place_ = "export OMPI_MCA_hwloc_base_binding_policy=core";
  expect_mended("mpi-settings", "odd", "OMPI_MCA_hwloc_base_binding_policy=core", "unset OMPI_MCA_hwloc_base_binding_policy");
}

TEST_F(Doctor, takes_a_scheduler_above_it_for_a_live_job) {
  make_program(folder() / "slurmstepd", "export SLURM_JOB_ID=77; sh -c '\"$0\" \"$@\"; true' \"$@\"; true");
  around_ = {in_folder("slurmstepd")};
  const Visit v = visit({"scheduler"});
  EXPECT_EQ(v["scheduler"].status, "ok") << v.text;
  EXPECT_EQ(v["scheduler"].found, "this process is of a job of SLURM (SLURM_JOB_ID=77)");
}

TEST_F(Doctor, names_a_temporary_folder_that_takes_no_files) {
  place_ = "export TMPDIR=" + in_folder("none");
  EXPECT_EQ(visit({"temporary-folder"})["temporary-folder"].found, in_folder("none") + ", which mpirun makes");
  for (const char* variable : {"OMPI_MCA_orte_tmpdir_base", "TMPDIR", "TMP"}) {
    place_ = fmt::format("export {}=/proc/none", variable);
    expect_mended("temporary-folder", "wrong", "/proc/none, where mpirun keeps its files, cannot be written: No such file or directory",
                  fmt::format("export {}=/tmp", variable));
  }
  if (!in_own("-m")) GTEST_SKIP() << "no mounts of its own can be made here";
  place_ = "mount -t tmpfs -o ro none /tmp";
  expect_mended("temporary-folder", "wrong", "/tmp, where mpirun keeps its files, cannot be written: Read-only file system", "export TMPDIR=/var/tmp");
  place_ = "mount -t tmpfs -o size=1m none /tmp";
  expect_mended("temporary-folder", "wrong", "/tmp, where mpirun keeps its files, has 1 MiB of room", "export TMPDIR=/var/tmp");
}

TEST_F(Doctor, names_a_loopback_that_is_down_and_a_host_name_without_an_address) {
  if (!in_own("-m -n -u") || !shell("command -v ip")) GTEST_SKIP() << "no network of its own can be made here";
  expect_mended("loopback", "wrong", "the loopback interface lo is down", "ip link set lo up");
  write_text(folder() / "hosts", "127.0.0.1 localhost\n");
  place_ = fmt::format("hostname nowhere; mount --bind '{}' /etc/hosts; ip link set lo up", in_folder("hosts"));
  expect_mended("host-name", "odd", "nowhere", "echo '127.0.1.1 nowhere' | tee -a /etc/hosts");
}

TEST_F(Doctor, names_a_limit_that_drivers_would_crash_at) {
  place_ = "ulimit -S -v 500000";
  expect_mended("limits", "wrong", "address space: its limit (ulimit -v) leaves ", "ulimit -S -v $(ulimit -H -v)");
  EXPECT_EQ(visit({"drivers"})["drivers"].remedy, "ulimit -S -v $(ulimit -H -v)");
}

TEST_F(Doctor, names_variables_that_devices_are_refused_for) {
  place_ = "export GEMEL_PLATFORM=nonsense";
  const Visit v = visit({"device"});
  EXPECT_EQ(v["device"].status, "wrong");
  EXPECT_NE(v["device"].found.find("platform: 'nonsense' is not found"), std::string::npos) << v.text;
  EXPECT_EQ(v["device"].remedy, "unset GEMEL_PLATFORM");
  place_ = "export POCL_MAX_PTHREAD_COUNT=many";
  EXPECT_EQ(visit({"device"})["device"].remedy, "unset POCL_MAX_PTHREAD_COUNT");
}

TEST_F(Doctor, is_pointed_to_by_a_launch_that_mpirun_gives_no_reason_for) {
  const Outcome o = run({"launch", "--np", "1", "train", "--model", "lenet"}, [] {
    ::setenv("OMPI_MCA_plm", "nonsense", 1);
    ::setenv("PRTE_MCA_ess", "nonsense", 1);  // from Open MPI 5 on
  });
  EXPECT_EQ(o.status, 1);
  EXPECT_TRUE(o.err.ends_with(", and `gemel doctor` looks for what is wrong here\n")) << o.err;
}

TEST_F(Doctor, looks_at_everything_with_few_open_files_and_no_path) {
  place_ = "ulimit -S -n 64";
  EXPECT_EQ(visit({})["slots"].status, "ok");
  place_ = "unset HOME GEMEL_CACHE_DIR XDG_CACHE_HOME";
  const Visit v = visit({"kernel-folder"});
  EXPECT_EQ(v["kernel-folder"].found, "this user has no folder: HOME names none: kernels are compiled again in every run");
  EXPECT_TRUE(v["kernel-folder"].remedy.starts_with("export GEMEL_CACHE_DIR=/")) << v.text;
}

TEST_F(Doctor, takes_a_library_that_the_loaders_variable_names_for_a_driver) {
  if (!has_pocl()) GTEST_SKIP() << "PoCL is not installed";
  std::string library;
  std::ifstream("/etc/OpenCL/vendors/pocl.icd") >> library;
  place_ = "export OCL_ICD_VENDORS=" + library;
  EXPECT_EQ(visit({"drivers"})["drivers"].status, "ok");
}

/// One way to break in the short run; the others, one of which takes its time, with --full.
TEST_F(Doctor, names_a_driver_that_ends_or_holds_up_whoever_loads_it) {
  if (!has_pocl()) GTEST_SKIP() << "PoCL is not installed";
  const std::string which = vendors() + "/broken.icd (" + GEMEL_BINARY_DIR + "/tests/broken_driver.so): ";
  std::vector<std::pair<std::string, std::string>> ways{{"aborts", "signal 6 (Aborted) ended the process"}};
  if (is_full_run())
    for (const auto& way :
         std::vector<std::pair<std::string, std::string>>{{"crashes", "signal 11 (Segmentation fault) ended the process"},
                                                          {"exits", "it ended the process, with status 3"},
                                                          {"crashes at the end", "signal 11 (Segmentation fault) ended the process, when it had done its work"},
                                                          {"hangs", "it does not end within 6 s"}})
      ways.push_back(way);
  for (const auto& [way, found] : ways) {
    place_ = fmt::format("export GEMEL_TEST_DRIVER='{}' OCL_ICD_VENDORS=\"${{OCL_ICD_VENDORS-{}}}\"", way, vendors());
    expect_mended("drivers", "wrong", which + found, "export OCL_ICD_VENDORS=" + in_folder("vendors/pocl.icd"));
  }
}

/// A driver and an mpirun that wait for ever, and whose own children ignore requests to end.
TEST_F(Doctor, ends_in_time_whatever_is_broken_and_leaves_nothing) {
  if (!is_full_run() || !has_pocl()) GTEST_SKIP() << "with --full, and PoCL";
  make_program(folder() / "bin" / "mpirun", fmt::format("trap '' TERM; echo $$ >>{}; sleep 600", in_folder("pids")));
  place_ = fmt::format("export GEMEL_TEST_DRIVER=hangs OCL_ICD_VENDORS={} PATH='{}':$PATH SLURM_JOB_ID=7", vendors(), in_folder("bin"));
  const auto begin = std::chrono::steady_clock::now();
  const Visit v = visit({});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  EXPECT_EQ(v.status, 1) << v.text;
  for (const char* name : {"drivers", "mpirun", "all-reduce"}) EXPECT_EQ(v[name].status, "wrong") << name << ": " << v.text;
  EXPECT_EQ(v["product-pocl-0"].status, "ok") << v.text;
  std::vector<pid_t> started;
  std::ifstream pids(folder() / "pids");
  for (pid_t p; pids >> p;) started.push_back(p);
  EXPECT_FALSE(started.empty());
  expect_gone(started);
}

// ---- the parts

using cli::Check;
using cli::Finding;
using cli::Health;
using cli::Line;
using cli::Report;

/// In a process of its own, in which no other test has started a driver: a check's process ends as a run does, with what is loaded.
void expect_passes_apart(const std::function<void()>& body) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT((body(), std::_Exit(::testing::Test::HasFailure())), ::testing::ExitedWithCode(0), "");
}

TEST(DoctorChecks, that_crash_hang_or_throw_are_wrong_where_they_were) {
  expect_passes_apart([] {
    const std::vector<Check> checks{{"fine",
                                     [] {
                                       return Finding{Health::ok, "all there"};
                                     }},
                                    {"aborts",
                                     [](Report& r) {
                                       r.add({Health::ok, "a first part"});
                                       r.begin("its-second-part", 1s);
                                       std::abort();
                                     }},
                                    {"hangs",
                                     [](Report& r) {
                                       r.begin("hangs", 50ms);
                                       std::this_thread::sleep_for(1h);
                                     },
                                     "a driver"},
                                    {"closes",
                                     [](Report& r) {
                                       r.begin("closes", 50ms);
                                       for (int file = 3; file < 256; ++file) ::close(file);
                                       std::this_thread::sleep_for(1h);
                                     }},
                                    {"throws", [](Report&) { throw UsageError("GEMEL_DOCTORED: 'x' is not accepted; accepted: y"); }},
                                    {"prints", [](Report& r) {
                                       std::puts("some words");
                                       r.add({Health::odd, "it printed: " + r.printed()});
                                       std::puts("last words");
                                       std::fflush(stdout);
                                       ::raise(SIGKILL);
                                     }}};
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<Line> lines = cli::run_apart(checks);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 3s);
    std::vector<std::string> got;
    for (const Line& l : lines) got.push_back(fmt::format("{} {} {} -> {}", l.name, to_string(l.finding.health), l.finding.found, l.finding.remedy));
    EXPECT_EQ(got,
              (std::vector<std::string>{"fine ok all there -> ", "aborts ok a first part -> ", "its-second-part wrong signal 6 (Aborted) ended the process -> ",
                                        "hangs wrong a driver: it does not end within 50 ms -> ", "closes wrong it does not end within 50 ms -> ",
                                        "throws wrong GEMEL_DOCTORED: 'x' is not accepted; accepted: y -> y",
                                        "prints wrong it printed: some words\n; signal 9 (Killed) ended the process; it printed: last words -> "}));
  });
}

TEST(DoctorChecks, lines_of_one_name_are_one_with_the_worst_health) {
  expect_passes_apart([] {
    const auto told = [](Health health, const char* found, const char* remedy) { return Check("drivers", [=](Report& r) { r.add({health, found, remedy}); }); };
    const std::vector<Line> lines =
        cli::run_apart({told(Health::odd, "a", "mend a"), told(Health::ok, "b", ""), told(Health::wrong, "c", "mend c"), told(Health::ok, "b", "")});
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0].finding.health, Health::wrong);
    EXPECT_EQ(lines[0].finding.found, "a; b; c");
    EXPECT_EQ(lines[0].finding.remedy, "mend c");
  });
}

TEST(DoctorChecks, versions_of_mpi_are_read) {
  const auto text = [](const char* printed) { return cli::parse_mpi_version(printed).text(); };
  EXPECT_EQ(text("mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n"), "Open MPI 4.1.4");
  EXPECT_EQ(text("mpirun (Open MPI) 5.0.7rc1\n"), "Open MPI 5.0.7");
  EXPECT_EQ(text("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022"), "Open MPI 4.1.4");
  EXPECT_EQ(text("HYDRA build details:\n    Version:                                 4.0.2\n    Release Date: Thu Apr  7 12:34:45 CDT 2022\n"), "MPICH 4.0.2");
  EXPECT_EQ(text("MPICH Version:      4.0.2\nMPICH Release date: Thu Apr  7 12:34:45 CDT 2022\n"), "MPICH 4.0.2");
  EXPECT_EQ(text("Intel(R) MPI Library for Linux* OS, Version 2021.10 Build 20230619\n"), "Intel MPI 2021.10");
  EXPECT_EQ(text("usage: something else\n"), "an MPI that does not tell its name");
  EXPECT_EQ(cli::parse_mpi_version("mpirun (Open MPI) 10.2.1").major(), "10");
}

TEST(DoctorChecks, texts_are_cut_between_words) {
  EXPECT_EQ(cli::wrapped("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(cli::wrapped("a-very-long-word and more", 6), (std::vector<std::string>{"a-very-long-word", "and", "more"}));
  EXPECT_EQ(cli::wrapped("", 6), (std::vector<std::string>{""}));
  EXPECT_EQ(cli::wrapped("short", 6), (std::vector<std::string>{"short"}));
}

TEST(DoctorChecks, gpus_without_a_driver_are_found) {
  const TemporaryFolder root;
  fs::create_directories(root / "dev" / "dri");
  for (const char* name : {"nvidia0", "nvidiactl", "nvidia-uvm", "dri/renderD128", "dri/card0", "null"}) write_text(root / "dev" / name, "");
  const auto told = [&](const std::vector<opencl::DriverFile>& drivers) {
    std::vector<std::string> out;
    for (const opencl::GpuNode& g : opencl::gpu_nodes(drivers, root.path()))
      out.push_back(fmt::format("{} {} {}", g.node.filename().string(), g.may_open, g.has_driver));
    return out;
  };
  EXPECT_EQ(told({}), Words{"nvidia0 true false"});
  EXPECT_EQ(told({{"/v/pocl.icd", "libpocl.so.2"}}), Words{"nvidia0 true false"});
  EXPECT_EQ(told({{"/v/gpu.icd", "libnvidia-opencl.so.1"}}), Words{"nvidia0 true true"});
  fs::remove(root / "dev" / "nvidia0");
  EXPECT_EQ(told({{"/v/pocl.icd", "libpocl.so.2"}}), Words{"renderD128 true false"});
  EXPECT_EQ(told({{"/v/pocl.icd", "libpocl.so.2"}, {"/v/intel.icd", "/usr/lib/libigdrcl.so"}}), Words{"renderD128 true true"});
}

TEST(DoctorChecks, sizes_are_read_by_people) {
  EXPECT_EQ(cli::bytes_text(64 << 10), "64 KiB");
  EXPECT_EQ(cli::bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(cli::bytes_text(0), "0 bytes");
  EXPECT_EQ(cli::bytes_text(25.0 * (1 << 30)), "25 GiB");
}

}  // namespace
}  // namespace gemel::testing
