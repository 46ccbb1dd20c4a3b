// Who may include whom. Reads the #include lines of the whole source tree, so that a layer cannot be skipped unseen.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gemel {
namespace {

namespace fs = std::filesystem;

struct Layer {
  std::string_view folder;             // the longest folder that a path starts with names its layer
  std::vector<std::string_view> uses;  // folders of the layers that it may include, besides itself
};

const std::vector<Layer>& layers() {
  static const std::vector<std::string_view> all = {"engine/base",
                                                    "opencl",
                                                    "engine",
                                                    "datasets",
                                                    "parallel",
                                                    "frontends",
                                                    "frontends/train",
                                                    "frontends/generation",
                                                    "frontends/distributed",
                                                    "frontends/domains",
                                                    "frontends/study",
                                                    "frontends/monitor",
                                                    "frontends/cli",
                                                    "tests",
                                                    "benchmarks"};
  static const std::vector<Layer> table = {
      {"engine/base", {}},
      {"opencl", {"engine/base"}},
      {"engine", {"engine/base"}},  // and opencl, for the files below
      {"datasets", {"engine/base"}},
      {"parallel", {"engine/base", "engine"}},
      {"frontends", {"engine/base", "engine"}},
      {"frontends/train", {"engine/base", "engine", "datasets", "frontends"}},
      {"frontends/generation", {"engine/base", "engine", "datasets", "frontends", "frontends/train"}},
      {"frontends/domains", {"engine/base", "engine", "datasets", "frontends", "frontends/train"}},
      {"frontends/distributed", {"engine/base", "engine", "datasets", "parallel", "frontends", "frontends/train"}},
      {"frontends/study", {"engine/base", "datasets"}},
      {"frontends/monitor", {"engine/base"}},
      {"frontends/cli", all},
      {"tests", all},
      {"benchmarks", all},
  };
  return table;
}

/// The engine's files that may include opencl/: what runs kernels or holds their memory. Nothing else knows of devices.
constexpr std::string_view kDeviceFiles[] = {"engine/device/", "engine/ops/"};

/// What declares operators and functions is a room before those that apply them.
constexpr std::string_view kDeclarations = "engine/ops/ops.h";
bool declares_operators(std::string_view path) {
  constexpr std::string_view kOthers[] = {"engine/ops/catalog.h", "engine/ops/catalog.cpp", "engine/ops/axes.h", "engine/functions/functions.h",
                                          "engine/functions/arithmetic.h"};
  return path == kDeclarations || (path.starts_with("engine/ops/") && path.ends_with("_operators.h")) || std::ranges::count(kOthers, path) > 0;
}
/// The engine's rooms in their order: each may include itself and those before it. The longest start of a path names its room.
constexpr std::string_view kEngineRooms[] = {"engine/base/",       "engine/core/",      kDeclarations,    "engine/gradients/",   "engine/device/",
                                             "engine/parameters/", "engine/reference/", "engine/ops/",    "engine/functions/",   "engine/graph/capture/",
                                             "engine/graph/run/",  "engine/graph/cut/", "engine/passes/", "engine/ops/control/", "engine/files/"};
/// Families of operators that use another one's; any other pair of families is apart.
constexpr std::pair<std::string_view, std::string_view> kFamiliesThatUse[] = {
    {"reduce", "elementwise"}, {"convolution", "matmul"}, {"recurrent", "matmul"}, {"attention", "random"}};
/// Sources that join rooms: what a session is made of, and the refusal of gradients by rows.
constexpr std::string_view kJoinsRooms[] = {"engine/core/session.cpp", "engine/core/trace.cpp"};

int room_of(std::string_view path) {
  if (declares_operators(path)) path = kDeclarations;
  int found = -1;
  for (int i = 0; i < static_cast<int>(std::size(kEngineRooms)); ++i)
    if (path.starts_with(kEngineRooms[i]) && (found < 0 || kEngineRooms[i].size() > kEngineRooms[found].size())) found = i;
  return found;
}

/// "matmul" of engine/ops/matmul/matmul.h; nothing of engine/ops/common.h
std::string_view family_of(std::string_view path) {
  constexpr std::string_view kOps = "engine/ops/";
  if (!path.starts_with(kOps)) return {};
  path.remove_prefix(kOps.size());
  const auto end = path.find('/');
  return end == path.npos ? std::string_view() : path.substr(0, end);
}

/// Why a file of the engine may not include another one, or nothing.
std::optional<std::string> violation_of_rooms(std::string_view path, std::string_view header) {
  if (std::ranges::count(kJoinsRooms, path) > 0) return std::nullopt;
  const int from = room_of(path), to = room_of(header);
  if (from < 0 || to < 0) return "a room of the engine has no place in the order";
  const std::string_view user = family_of(path), used = declares_operators(header) && !declares_operators(path) ? "" : family_of(header);
  if (!user.empty() && !used.empty() && user != used && std::ranges::count(kFamiliesThatUse, std::pair(user, used)) == 0)
    return fmt::format("the family {} may not include {}", user, used);
  if (to <= from) return std::nullopt;
  return fmt::format("the room {} comes before {}", kEngineRooms[from], kEngineRooms[to]);
}

/// Headers of other projects that only some files may include.
struct Vendor {
  std::string_view header;
  std::string_view only_in;  // start of the path
};
constexpr Vendor kVendors[] = {{"CL/", "opencl/"}, {"clblast", "opencl/clblast/"}, {"mpi.h", "parallel/transport/mpi_communicator"}};

const Layer* layer_of(std::string_view path) {
  const Layer* found = nullptr;
  for (const Layer& layer : layers()) {
    const bool inside = path.starts_with(layer.folder) && path.substr(layer.folder.size()).starts_with('/');
    if (inside && (found == nullptr || layer.folder.size() > found->folder.size())) found = &layer;
  }
  return found;
}

struct Include {
  std::string header;
  bool quoted = false;
};

std::optional<Include> parse_include(const std::string& line) {
  const auto hash = line.find_first_not_of(" \t");
  if (hash == std::string::npos || line[hash] != '#') return std::nullopt;
  const auto word = line.find_first_not_of(" \t", hash + 1);
  if (word == std::string::npos || line.compare(word, 7, "include") != 0) return std::nullopt;
  const auto open = line.find_first_of("\"<", word);
  if (open == std::string::npos) return std::nullopt;
  const auto close = line.find_first_of("\">", open + 1);
  if (close == std::string::npos) return std::nullopt;
  return Include{line.substr(open + 1, close - open - 1), line[open] == '"'};
}

/// @return why `path` must not include this, or nothing
std::optional<std::string> violation(std::string_view path, const Include& include) {
  const auto starts = [](std::string_view text) { return [text](std::string_view start) { return text.starts_with(start); }; };
  if (path.starts_with("tests/support/stub_driver/") && include.header.starts_with("CL/")) return std::nullopt;  // it is a driver
  if (path == "benchmarks/peers/clblast.cpp" && include.header == "clblast.h") return std::nullopt;              // calls it by hand
  for (const Vendor& vendor : kVendors) {
    if (include.header.starts_with(vendor.header) && !path.starts_with(vendor.only_in)) {
      return "only " + std::string(vendor.only_in) + "* may include it";
    }
  }
  if (!include.quoted) return std::nullopt;
  const Layer* from = layer_of(path);
  const Layer* to = layer_of(include.header);
  if (to == nullptr) return "quoted includes are paths from the root of the source tree";
  if (path.starts_with("engine/") && include.header.starts_with("engine/"))
    if (const auto why = violation_of_rooms(path, include.header)) return why;
  if (from == nullptr || from == to || std::ranges::find(from->uses, to->folder) != from->uses.end()) return std::nullopt;
  if (from->folder == "engine" && to->folder == "opencl" && std::ranges::any_of(kDeviceFiles, starts(path))) return std::nullopt;
  return "the layer " + std::string(from->folder) + " may not include " + std::string(to->folder);
}

/// @return one line "file:line: header: why" for each include of `text` that its layer forbids
std::vector<std::string> violations(const std::string& path, std::istream& text) {
  std::vector<std::string> found;
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    const auto include = parse_include(line);
    if (!include) continue;
    if (const auto why = violation(path, *include)) {
      found.push_back(path + ":" + std::to_string(number) + ": " + include->header + ": " + *why);
    }
  }
  return found;
}

std::vector<std::string> violations(const std::string& path, const std::string& text) {
  std::istringstream stream(text);
  return violations(path, stream);
}

TEST(Layers, no_file_includes_what_its_layer_forbids) {
  const fs::path root = GEMEL_SOURCE_DIR;
  int files = 0;
  for (const char* folder : {"engine", "opencl", "datasets", "parallel", "frontends", "tests", "benchmarks"}) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const fs::path& file = entry.path();
      if (!entry.is_regular_file() || (file.extension() != ".h" && file.extension() != ".cpp")) continue;
      ++files;
      std::ifstream text(file);
      for (const auto& line : violations(fs::relative(file, root).generic_string(), text)) ADD_FAILURE() << line;
    }
  }
  EXPECT_GT(files, 10) << "the scan saw hardly any source in " << root;
}

/// The headers from a file to the first one of opencl/ that it sees through others, or none.
std::vector<std::string> way_to_opencl(const std::string& file, std::set<std::string>& seen) {
  if (file.starts_with("opencl/")) return {file};
  std::ifstream text(fs::path(GEMEL_SOURCE_DIR) / file);
  for (std::string line; std::getline(text, line);) {
    const auto include = parse_include(line);
    if (!include || !include->quoted || !seen.insert(include->header).second) continue;
    auto way = way_to_opencl(include->header, seen);
    if (way.empty()) continue;
    way.insert(way.begin(), file);
    return way;
  }
  return {};
}

TEST(Layers, nothing_above_the_engine_sees_opencl_through_its_headers) {
  const fs::path root = GEMEL_SOURCE_DIR;
  int files = 0;
  for (const char* folder : {"datasets", "parallel", "frontends"}) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string file = fs::relative(entry.path(), root).generic_string();
      if (!entry.is_regular_file() || file.starts_with("frontends/cli/") || (!file.ends_with(".h") && !file.ends_with(".cpp"))) continue;
      ++files;
      std::set<std::string> seen;
      const auto way = way_to_opencl(file, seen);
      EXPECT_TRUE(way.empty()) << fmt::format("{}", fmt::join(way, " > "));
    }
  }
  EXPECT_GT(files, 50);
  std::set<std::string> seen;
  EXPECT_FALSE(way_to_opencl("engine/device/device_memory.h", seen).empty());
}

/// Those of the engine that need what these make: fused kernels, the sessions of a device, and the checks that operators share.
constexpr std::string_view kUsersOfDeviceFiles[] = {"engine/passes/epilogue_fusion.cpp", "engine/core/session.cpp", "engine/functions/conv1d.cpp",
                                                    "engine/functions/embedding.cpp"};

TEST(Layers, few_files_of_the_engine_see_opencl_through_its_headers) {
  const fs::path root = GEMEL_SOURCE_DIR;
  for (const auto& entry : fs::recursive_directory_iterator(root / "engine")) {
    const std::string file = fs::relative(entry.path(), root).generic_string();
    if (!file.ends_with(".h") && !file.ends_with(".cpp")) continue;
    if (std::ranges::any_of(kDeviceFiles, [&](std::string_view start) { return file.starts_with(start); }) || std::ranges::count(kUsersOfDeviceFiles, file) > 0)
      continue;
    std::set<std::string> seen;
    const auto way = way_to_opencl(file, seen);
    EXPECT_TRUE(way.empty()) << fmt::format("{}", fmt::join(way, " > "));
  }
}

TEST(Layers, forbidden_includes_are_named_with_file_and_line) {
  EXPECT_EQ(violations("engine/base/shape.cpp", "#pragma once\n#include \"engine/core/op.h\"\n"),
            std::vector<std::string>{"engine/base/shape.cpp:2: engine/core/op.h: the room engine/base/ comes before engine/core/"});
  EXPECT_EQ(violations("datasets/loading/data_loader.cpp", "#  include \"shape.h\"\n"),
            std::vector<std::string>{"datasets/loading/data_loader.cpp:1: shape.h: quoted includes are paths from the root of the source tree"});
  EXPECT_EQ(violations("parallel/ddp/reducer.h", "#include <mpi.h>\n"),
            std::vector<std::string>{"parallel/ddp/reducer.h:1: mpi.h: only parallel/transport/mpi_communicator* may include it"});
}

struct Case {
  const char* path;
  const char* line;
  bool accepted;
};

class LayersRule : public ::testing::TestWithParam<Case> {};

TEST_P(LayersRule, decides_as_the_architecture_says) {
  const Case& given = GetParam();
  EXPECT_EQ(violations(given.path, given.line).empty(), given.accepted) << given.path << ": " << given.line;
}

INSTANTIATE_TEST_SUITE_P(Includes, LayersRule,
                         ::testing::Values(Case{"opencl/queue.cpp", "#include <CL/cl.h>", true},
                                           Case{"engine/graph/run/executor.cpp", "#include <CL/cl.h>", false},
                                           Case{"opencl/clblast/clblast_gemm.cpp", "#include <clblast_c.h>", true},
                                           Case{"engine/ops/matmul/clblast.cpp", "#include <clblast_c.h>", false},
                                           Case{"parallel/transport/mpi_communicator.cpp", "#include <mpi.h>", true},
                                           Case{"engine/device/dispatch.cpp", "#include \"opencl/device/device.h\"", true},
                                           Case{"engine/ops/normalisation/softmax.cpp", "#include \"opencl/device/device.h\"", true},
                                           Case{"engine/gradients/autograd.cpp", "#include \"opencl/device/device.h\"", false},
                                           Case{"engine/gradients/autograd.cpp", "#include \"engine/ops/matmul/matmul_operators.h\"", true},
                                           Case{"engine/gradients/autograd.cpp", "#include \"engine/ops/common.h\"", false},
                                           Case{"engine/ops/loss/ctc.cpp", "#include \"engine/ops/reduce/reduce_operators.h\"", true},
                                           Case{"engine/ops/loss/loss_operators.h", "#include \"engine/ops/reduce/reduce_operators.h\"", false},
                                           Case{"engine/ops/loss/ctc.cpp", "#include \"engine/ops/reduce/reduce.h\"", false},
                                           Case{"opencl/queue.cpp", "#include \"engine/core/op.h\"", false},
                                           Case{"frontends/nn/linear.h", "#include \"parallel/transport/communicator.h\"", false},
                                           Case{"frontends/nn/linear.h", "#include \"frontends/cli/train.h\"", false},
                                           Case{"frontends/nn/linear.h", "#include \"engine/core/value.h\"", true},
                                           Case{"parallel/ddp/reducer.h", "#include \"frontends/nn/module.h\"", false},
                                           Case{"frontends/train/step.h", "#include \"datasets/loading/batch.h\"", true},
                                           Case{"frontends/train/step.h", "#include \"frontends/cli/run/progress_bar.h\"", false},
                                           Case{"frontends/nn/linear.h", "#include \"frontends/train/step.h\"", false},
                                           Case{"datasets/loading/data_loader.h", "#include \"engine/base/shape.h\"", true},
                                           Case{"datasets/loading/data_loader.h", "#include \"engine/core/value.h\"", false},
                                           Case{"frontends/cli/commands/train.cpp", "#include \"parallel/ddp/reducer.h\"", true}));

}  // namespace
}  // namespace gemel
