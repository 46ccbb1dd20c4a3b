#include "frontends/cli/options/parallel_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "engine/base/error.h"
#include "frontends/cli/strategies/strategy.h"
#include "frontends/cli/system/build_info.h"
#include "frontends/train/checkpoint/run_identity.h"

namespace gemel::cli {
namespace {

std::int64_t bucket_bytes(const po::variables_map& v, const char* name) {
  const double megabytes = v[name].as<double>();
  check_range(std::string("--") + name, megabytes, 1e-6, 1e6);
  return std::llround(megabytes * (1 << 20));
}

/// "0,1", "0.0,0.1", "portable:cpu,rusticl:0"
std::vector<DeviceName> device_names(const std::string& list) {
  std::vector<DeviceName> out;
  if (list.empty()) return out;
  for (const std::string& name : split_at_commas(list)) {
    const std::size_t colon = name.find(':');
    DeviceName device = colon == std::string::npos ? DeviceName{"", name} : DeviceName{name.substr(0, colon), name.substr(colon + 1)};
    if (device.device.empty() || (colon == 0))
      throw UsageError(fmt::format("--devices: '{}' has '{}'; accepted: INDEX, INDEX.PART or PLATFORM:DEVICE, with commas between", list, name));
    out.push_back(std::move(device));
  }
  return out;
}

/// 0 for never.
double seconds_option(const po::variables_map& v, const char* name) {
  constexpr double kLeast = 0.1;  // what is shorter is a pause of the system's
  const double s = v[name].as<double>();
  if (s != 0) check_range(std::string("--") + name, s, kLeast, 1e6);
  return s;
}

parallel::CompressionOptions compression(const std::string& text) {
  using Kind = parallel::CompressionOptions::Kind;
  if (text == "none") return {Kind::none};
  if (text == "fp16") return {Kind::float16};
  if (text == "bf16") return {Kind::bfloat16};
  constexpr std::string_view kTopK = "topk:";
  double fraction = 0;
  const char* const end = text.data() + text.size();
  if (text.starts_with(kTopK) && std::from_chars(text.data() + kTopK.size(), end, fraction).ptr == end && fraction > 0 && fraction <= 1)
    return {Kind::top_k, fraction};
  throw UsageError(fmt::format("--compression: '{}'; accepted: none, fp16, bf16, or topk:F with F above 0 and at most 1", text));
}

void read_gradient_options(const po::variables_map& v, ParallelOptions& o) {
  o.sync_bn = v["sync-bn"].as<bool>();
  o.reducer.buckets = {bucket_bytes(v, "bucket-mb"), bucket_bytes(v, "first-bucket-mb")};
  o.compression_text = v["compression"].as<std::string>();
  o.reducer.compression = compression(o.compression_text);
}

/// Options that would do nothing are refused.
void check_used(const po::variables_map& v, const ParallelOptions& o) {
  if (!o.devices.empty() && is_given(v, "device"))
    throw UsageError("--device: it is given with --devices, which names where each rank computes; accepted: one of them");
  if (is_given(v, "devices") && o.devices.empty()) throw UsageError("--devices: ''; accepted: INDEX, INDEX.PART or PLATFORM:DEVICE, with commas between");
  if (o.strategy->ranks_are() == RanksAre::threads)
    refuse_given(v, std::array{"heartbeat", "stall-warning", "interface"},
                 fmt::format("with --parallel {}, where one process has no others to watch; accepted: with --parallel ddp", o.strategy->name()));
  for (const Style* style : styles()) {
    if (style == &o.strategy->style() || !style->add_options) continue;
    po::options_description own;
    style->add_options(own, Purpose::train);
    for (const auto& option : own.options())
      refuse_given(v, std::array{option->long_name().c_str()}, fmt::format("without --parallel {}; accepted: with it", style->name));
  }
}

/// "ddp: the processes that mpirun started share each batch; ..."
std::string help_of_styles() {
  std::vector<std::string> parts;
  for (const Style* style : styles()) parts.push_back(fmt::format("{}: {}", *style->name ? style->name : "without it", style->about));
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

void add_parallel_options(po::options_description& options) {
  auto option = options.add_options();
  option("parallel", po::value<std::string>()->default_value(""), help_of_styles().c_str());
  option("devices", po::value<std::string>()->default_value(""),
         "where each rank or replica computes: 0,1, parts of a CPU (0.0,0.1) or PLATFORM:DEVICE,... "
         "(default: the platform's devices of a kind)");
  option("collective", po::value<std::string>()->default_value("auto"), "algorithm of all-reduce: auto, ring, tree, shared, hierarchical or mpi");
  option("heartbeat", po::value<double>()->default_value(8, "8"), "seconds after which a silent rank counts as lost; 0: never");
  option("stall-warning", po::value<double>()->default_value(60, "60"), "seconds after which a rank that lives and makes no progress is warned of; 0: never");
  option("interface", po::value<std::string>()->default_value(""), "network interface by which ranks watch each other (default: all are tried)");
}

void add_gradient_options(po::options_description& options) {
  auto option = options.add_options();
  option("sync-bn", po::bool_switch(), "batch normalisation over the whole batch, not a rank's shard of it");
  option("bucket-mb", po::value<double>()->default_value(25, "25"), "MiB of gradients that are summed over the ranks at once");
  option("first-bucket-mb", po::value<double>()->default_value(1, "1"), "the same of the first, so that communication begins early");
  option("compression", po::value<std::string>()->default_value("none"),
         "of gradients on their way: none, fp16, bf16, or topk:F, the largest F of them (topk:0.01)");
}

void add_balance_option(po::options_description& options) {
  options.add_options()("balance", po::value<std::string>()->default_value("even"),
                        "shares of each batch: even, or auto, by the rates that ranks are measured to have");
}

void add_style_options(po::options_description& options, Purpose purpose) {
  for (const Style* style : styles())
    if (style->add_options) style->add_options(options, purpose);
}

ParallelOptions parallel_options(const po::variables_map& v) {
  ParallelOptions o;
  const Style& style = style_option(v);
  o.devices = device_names(v["devices"].as<std::string>());
  if (v.count("compression")) read_gradient_options(v, o);
  if (v.count("balance")) {
    check_choice("--balance", v["balance"].as<std::string>(), {"even", "auto"});
    o.balances = v["balance"].as<std::string>() == "auto";
  }
  const auto collective = v["collective"].as<std::string>();
  check_choice("--collective", collective, {"auto", "ring", "tree", "shared", "hierarchical", "mpi"});
  o.collective = parallel::parse_algorithm(collective);
  o.watch = {
      .heartbeat_s = seconds_option(v, "heartbeat"), .stall_warning_s = seconds_option(v, "stall-warning"), .interface = v["interface"].as<std::string>()};
  o.strategy = style.make(style, v, o);
  check_used(v, o);
  return o;
}

ParallelOptions parallel_options(const std::vector<std::string>& words) {
  po::options_description options;
  add_parallel_options(options);
  return parallel_options(parse("parallel", "", options, words));
}

std::vector<distributed::Setting> program_settings() { return {{"version", GEMEL_VERSION}, {"commit", commit()}, {"build", train::build_identity()}}; }

std::vector<distributed::Setting> settings_of(const Json& spec) {
  constexpr std::array kOwn{"platform", "device", "devices", "threads", "memory-limit", "workers", "log-dir", "interface", "heartbeat", "stall-warning"};
  constexpr std::array kFiles{"data", "vocab",          "weights", "save",   "output",
                              "json", "checkpoint-dir", "resume",  "profile"};  // whose place may be each rank's own
  std::vector<distributed::Setting> out = program_settings();
  for (const auto& [key, value] : spec.items()) {
    if (std::ranges::find(kOwn, key) != kOwn.end()) continue;
    const bool is_file = std::ranges::find(kFiles, key) != kFiles.end();
    out.push_back({key, is_file ? value.is_null() || value == "" ? "not given" : "given" : value.is_string() ? value.get<std::string>() : value.dump()});
  }
  return out;
}

}  // namespace gemel::cli
