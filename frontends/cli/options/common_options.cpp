#include "frontends/cli/options/common_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/base/error.h"
#include "frontends/cli/options/ablation_options.h"
#include "frontends/cli/system/console.h"

namespace gemel::cli {
namespace {

std::string pass_help() {
  std::vector<std::string_view> names;
  for (const Pass& p : passes()) names.push_back(p.name);
  return fmt::format("graph passes that run: all, none, or some of {}", fmt::join(names, ", "));
}

opencl::GemmChoice gemm_choice(const std::string& text) {
  check_choice("--gemm", text, {"auto", "clblast", "native"});
  return text == "clblast" ? opencl::GemmChoice::clblast : text == "native" ? opencl::GemmChoice::native : opencl::GemmChoice::automatic;
}

Denormals denormals_choice(const std::string& text) {
  check_choice("--denormals", text, {"keep", "flush"});
  return text == "flush" ? Denormals::flush : Denormals::keep;
}

Precision precision_choice(const std::string& text) {
  check_choice("--precision", text, {"float32", "tf32"});
  return text == "tf32" ? Precision::tf32 : Precision::float32;
}

}  // namespace

void add_device_options(po::options_description& options) {
  const opencl::DeviceOptions defaults;
  auto option = options.add_options();
  option("platform", po::value<std::string>()->default_value(defaults.platform, ""), "OpenCL platform: an index or a part of its name (also GEMEL_PLATFORM)");
  option("device", po::value<std::string>()->default_value(defaults.device, ""),
         "device in it: an index, a part of a CPU (0.1), cpu or gpu (also GEMEL_DEVICE)");
  option("threads", po::value<int>()->default_value(0), "threads of a CPU device; 0: all");
  option("memory-limit", po::value<std::string>()->default_value("0"),
         "bytes that may be held on the device (8G, 512M too); 0: the least of what it has, what a container allows and, where shared, what is free");
  option("gemm", po::value<std::string>()->default_value("auto"), "GEMM provider: auto, clblast or native");
  option("denormals", po::value<std::string>()->default_value("keep"),
         "numbers too small for all digits of a float: keep, or flush, which takes them for 0; some processors take a hundred cycles over each");
}

opencl::DeviceOptions device_options(const po::variables_map& v) {
  opencl::DeviceOptions o;
  o.platform = v["platform"].as<std::string>();
  o.device = v["device"].as<std::string>();
  o.threads = v["threads"].as<int>();
  o.memory_limit = byte_count(v, "memory-limit");
  o.gemm = gemm_choice(v["gemm"].as<std::string>());
  o.denormals = denormals_choice(v["denormals"].as<std::string>());
  check_range("--threads", o.threads, 0, 4096);
  return o;
}

void add_common_options(po::options_description& options) {
  add_device_options(options);
  auto option = options.add_options();
  option("precision", po::value<std::string>()->default_value("float32"),
         "of matrix products and convolutions: float32, or tf32, whose factors have 11 bits (3 digits), where the device has matrix units for it");
  option("graph-passes", po::value<std::string>()->default_value("all"), pass_help().c_str());
  option("seed", po::value<std::int64_t>()->default_value(1), "seed of initialisation, shuffling and dropout");
  option("log-dir", po::value<std::string>()->default_value(""), "folder for run.jsonl, TensorBoard files and summary.json");
  option("profile", po::value<std::string>()->default_value(""), "write a Chrome trace of every kernel to this file");
}

CommonOptions common_options(const po::variables_map& v) {
  CommonOptions o;
  o.device = device_options(v);
  o.device.precision = precision_choice(v["precision"].as<std::string>());
  if (o.device.precision == Precision::tf32 && o.device.gemm == opencl::GemmChoice::clblast)
    throw UsageError("--precision tf32 is given with --gemm clblast, which computes in float32; accepted: --gemm auto or native");
  if (v.count("variant")) o.device.ablation = ablation_options(v);
  o.passes_text = v["graph-passes"].as<std::string>();
  o.passes = parse_passes(o.passes_text);
  o.seed = static_cast<std::uint64_t>(whole_number(v, "seed", 0, 1e15));
  o.log_dir = v["log-dir"].as<std::string>();
  o.profile = v["profile"].as<std::string>();
  return o;
}

void add_frontend_option(po::options_description& options) {
  options.add_options()("frontend", po::value<std::string>()->default_value("eager"), "eager or graph");
}

Frontend frontend_option(const po::variables_map& v) { return parse_frontend(v["frontend"].as<std::string>()); }

Frontend parse_frontend(const std::string& name) {
  check_choice("--frontend", name, {"eager", "graph"});
  return name == "graph" ? Frontend::graph : Frontend::eager;
}

void say_device(const opencl::DeviceProfile& p) {
  const std::string name = p.pretended.empty() ? p.name : fmt::format("{}, as which {} poses", p.pretended, p.name);
  say("device: {} ({}, {} unit{})\n", name, p.platform, p.compute_units, p.compute_units == 1 ? "" : "s");
  if (p.precision() != p.preferences.precision)
    say("warning: --precision {}: the device has no matrix units for it; products are {}\n", to_string(p.preferences.precision), to_string(p.precision()));
}

}  // namespace gemel::cli
