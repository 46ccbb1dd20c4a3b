// That a newcomer finds his way: no folder holds more than twenty sources, no file is longer than 400 lines, and no two headers have one name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gemel {
namespace {

namespace fs = std::filesystem;

const std::set<std::string> kSourceExtensions{".cpp", ".h", ".cl", ".clh", ".py"};

/// What may be larger than others, and why. An entry that is no longer larger is an error, too.
struct Exception {
  std::string_view path, reason;
};

struct Limit {
  std::size_t most;
  std::string_view unit;
  std::span<const Exception> exceptions;
};

constexpr Limit kFolder{20, "sources", {}};  // a .cpp and its .h count as one

constexpr Exception kLongFiles[] = {
    {"opencl/device/device.cpp", "one class: a device with its queues, transfers and programs"},
    {"parallel/transport/mpi_communicator.cpp", "the one file that includes mpi.h"},
    {"tests/engine/parameters/parameter_slab_test.cpp", "one suite of cases of the same slab"},
    {"tests/frontends/distributed/data_parallel_test.cpp", "cases of one fixture: ranks that are threads"},
    {"tests/frontends/graph/training_test.cpp", "cases of one small network that is trained in a graph"},
    {"tests/frontends/nn/modules_test.cpp", "a case for each module and layer"},
    {"tests/frontends/train/trainer_test.cpp", "cases of one fixture: a trainer with a small classifier"},
    {"tests/opencl/device/device_test.cpp", "a case for each promise of device.h"},
    {"tests/parallel/horovod/errors_test.cpp", "cases of one fixture: Horovod's cycles on threads"},
    {"tests/parallel/pipeline/schedule_test.cpp", "the schedules, their check and their clock explain each other"},
    {"tests/parallel/watch/failure_detector_test.cpp", "cases of one fixture: a watch with ranks of three kinds"},
    {"tests/program/commands/doctor_test.cpp", "a case for each check of gemel doctor"},
    {"tests/program/job/mpirun_test.cpp", "cases of one fixture: a job that is broken on the way"},
    {"tests/program/launch/mpirun_environment_test.cpp", "a case for each surrounding of mpirun"},
};
constexpr Limit kFile{400, "lines", kLongFiles};

/// A line for each size that is beyond the limit without an exception, and for each exception that is not beyond it.
std::vector<std::string> complaints(const std::map<std::string, std::size_t>& sizes, const Limit& limit) {
  std::vector<std::string> out;
  const auto is_excepted = [&](const std::string& path) { return std::ranges::count(limit.exceptions, path, &Exception::path) > 0; };
  for (const auto& [path, size] : sizes)
    if (size > limit.most && !is_excepted(path))
      out.push_back(fmt::format("{} has {} {}; accepted: {}, or a reason in tests/repository/rooms_test.cpp", path, size, limit.unit, limit.most));
  for (const Exception& e : limit.exceptions) {
    const auto found = sizes.find(std::string(e.path));
    const std::size_t size = found == sizes.end() ? 0 : found->second;
    if (size <= limit.most)
      out.push_back(fmt::format("{} is excepted and has {} {}; accepted: exceptions above {}: take it out of the list", e.path, size, limit.unit, limit.most));
  }
  return out;
}

std::vector<fs::path> sources() {
  const fs::path root = GEMEL_SOURCE_DIR;
  std::vector<fs::path> out;
  for (const char* folder : {"engine", "opencl", "frontends", "parallel", "datasets", "tests", "benchmarks", "examples"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.is_regular_file() && kSourceExtensions.contains(entry.path().extension().string())) out.push_back(fs::relative(entry.path(), root));
  return out;
}

std::map<std::string, std::size_t> sources_by_folder(const std::vector<fs::path>& files) {
  std::map<std::string, std::set<std::string>> stems;
  for (const fs::path& file : files) stems[file.parent_path().generic_string()].insert(file.stem().string());
  std::map<std::string, std::size_t> out;
  for (const auto& [folder, names] : stems) out[folder] = names.size();
  return out;
}

std::size_t lines_of(const fs::path& file) {
  std::ifstream in(file);
  return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(in), {}, '\n'));
}

std::map<std::string, std::vector<std::string>> headers_by_name(const std::vector<fs::path>& files) {
  std::map<std::string, std::vector<std::string>> out;
  for (const fs::path& file : files)
    if (file.extension() == ".h") out[file.filename().string()].push_back(file.generic_string());
  return out;
}

TEST(Rooms, hold_no_more_than_twenty_sources) {
  const auto folders = sources_by_folder(sources());
  EXPECT_GT(folders.size(), 50u);
  for (const std::string& line : complaints(folders, kFolder)) ADD_FAILURE() << line;
}

TEST(Rooms, hold_no_file_of_more_than_400_lines) {
  std::map<std::string, std::size_t> lines;
  for (const fs::path& file : sources()) lines[file.generic_string()] = lines_of(fs::path(GEMEL_SOURCE_DIR) / file);
  EXPECT_GT(lines.size(), 500u);
  for (const std::string& line : complaints(lines, kFile)) ADD_FAILURE() << line;
}

TEST(Rooms, no_two_headers_have_one_name) {
  for (const auto& [name, paths] : headers_by_name(sources())) EXPECT_EQ(paths.size(), 1u) << fmt::format("{} and {}", paths.front(), paths.back());
}

TEST(Rooms, what_is_too_large_and_exceptions_that_are_stale_are_told) {
  constexpr Exception exceptions[] = {{"large", "a reason"}, {"small", "a reason"}, {"gone", "a reason"}};
  const auto told = complaints({{"large", 5}, {"small", 4}, {"other", 6}, {"fits", 4}}, {4, "lines", exceptions});
  EXPECT_EQ(told, (std::vector<std::string>{"other has 6 lines; accepted: 4, or a reason in tests/repository/rooms_test.cpp",
                                            "small is excepted and has 4 lines; accepted: exceptions above 4: take it out of the list",
                                            "gone is excepted and has 0 lines; accepted: exceptions above 4: take it out of the list"}));
}

TEST(Rooms, count_a_source_and_its_header_once_and_find_names_that_stand_twice) {
  const std::vector<fs::path> files{"a/x.cpp", "a/x.h", "a/y.h", "b/y.h", "b/y.py"};
  EXPECT_EQ(sources_by_folder(files).at("a"), 2u);
  EXPECT_EQ(headers_by_name(files).at("y.h").size(), 2u);
}

}  // namespace
}  // namespace gemel
