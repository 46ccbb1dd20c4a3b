#include "frontends/cli/options/parallel_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "engine/base/error.h"
#include "frontends/cli/system/build_info.h"
#include "frontends/train/checkpoint/run_identity.h"
#include "parallel/transport/mpi_communicator.h"

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

constexpr const char* kPipelineOptions[] = {"pipeline-stages", "microbatches", "pipeline-schedule", "virtual-stages", "stages"};

std::vector<std::string> module_names(const std::string& list) {
  if (list == "auto") return {};
  std::vector<std::string> out = split_at_commas(list);
  if (std::ranges::any_of(out, &std::string::empty))
    throw UsageError(
        fmt::format("--stages: '{}' has an empty name; accepted: auto, or the first module of each stage but the first, with commas between", list));
  return out;
}

PipelineOptions read_pipeline_options(const po::variables_map& v) {
  PipelineOptions o;
  o.stages = static_cast<int>(whole_number(v, "pipeline-stages", 0, 1e4));
  o.micro_batches = whole_number(v, "microbatches", 0, 1e6);
  o.modules = module_names(v["stages"].as<std::string>());
  if (!v.count("pipeline-schedule")) return o;  // of an evaluation
  const auto schedule = v["pipeline-schedule"].as<std::string>();
  check_choice("--pipeline-schedule", schedule, {"gpipe", "1f1b", "interleaved"});
  o.schedule = parallel::parse_schedule(schedule);
  const bool interleaved = o.schedule == parallel::ScheduleKind::interleaved;
  o.virtual_stages = interleaved ? static_cast<int>(whole_number(v, "virtual-stages", 2, 1e3)) : 1;
  if (!interleaved && !v["virtual-stages"].defaulted())
    throw UsageError(
        fmt::format("--virtual-stages: it is given with --pipeline-schedule {}, where a stage is one piece; accepted: with interleaved", schedule));
  return o;
}

void check_pipeline(const po::variables_map& v, ParallelOptions& o) {
  const auto given = [&v](const char* name) { return v.count(name) && !v[name].defaulted(); };
  if (!o.pipeline) {
    for (const char* name : kPipelineOptions)
      if (given(name)) throw UsageError(fmt::format("--{}: it is given without --parallel pipeline; accepted: with it", name));
    return;
  }
  if (o.sync_bn)
    throw UsageError(
        "--sync-bn: it is given with --parallel pipeline, whose batch statistics are those of a micro-batch; accepted: --freeze-norm, or --microbatches 1");
  if (o.balances) throw UsageError("--balance: auto is given with --parallel pipeline, which takes rates into account where it cuts; accepted: even");
  if (o.reducer.compression.kind == parallel::CompressionOptions::Kind::top_k)
    throw UsageError(fmt::format("--compression: '{}' is given with --parallel pipeline; accepted: none, fp16, bf16", o.compression_text));
  for (const char* name : {"accumulate", "no-sync"})
    if (given(name)) throw UsageError(fmt::format("--{}: it is given with --parallel pipeline; accepted: --microbatches, which cuts a batch", name));
  for (const char* name : {"bucket-mb", "first-bucket-mb", "compression", "collective"})
    if (given(name)) o.sums_option = name;
}

/// Options that would do nothing are refused.
void check_used(const po::variables_map& v, const ParallelOptions& o) {
  const auto given = [&v](const char* name) { return v.count(name) && !v[name].defaulted(); };
  for (const char* name : {"heartbeat", "stall-warning", "interface"})
    if (o.in_one_process() && given(name))
      throw UsageError(
          fmt::format("--{}: it is given with --parallel {}, where one process has no others to watch; accepted: with --parallel ddp", name, o.style));
  for (const char* name : {"bucket-mb", "first-bucket-mb"})
    if (o.horovod && given(name))
      throw UsageError(fmt::format(
          "--{}: it is given with --parallel horovod, which fuses what is there in a cycle; accepted: HOROVOD_FUSION_THRESHOLD and HOROVOD_CYCLE_TIME", name));
  if (o.horovod && o.reducer.compression.kind == parallel::CompressionOptions::Kind::top_k)
    throw UsageError(fmt::format("--compression: '{}' is given with --parallel horovod; accepted: none, fp16, bf16", o.compression_text));
  if (!o.devices.empty() && given("device"))
    throw UsageError("--device: it is given with --devices, which names where each rank computes; accepted: one of them");
  if (given("devices") && o.devices.empty()) throw UsageError("--devices: ''; accepted: INDEX, INDEX.PART or PLATFORM:DEVICE, with commas between");
  if (!o.style.empty()) return;
  if (given("devices")) throw UsageError("--devices: it is given without --parallel; accepted: --device for one device");
  if (given("sync-bn")) throw UsageError("--sync-bn: it is given without --parallel, where the whole batch is normalised together; accepted: with --parallel");
  for (const char* name : {"balance", "bucket-mb", "first-bucket-mb", "compression", "collective", "heartbeat", "stall-warning", "interface"})
    if (given(name)) throw UsageError(fmt::format("--{}: it is given without --parallel, where one device computes; accepted: with --parallel ddp", name));
}

}  // namespace

void add_parallel_options(po::options_description& options) {
  auto option = options.add_options();
  option("parallel", po::value<std::string>()->default_value(""),
         "ddp: the processes that mpirun started share each batch; horovod: the same, and gradients are reduced in cycles (HOROVOD_CYCLE_TIME and its kin); "
         "pipeline: the model is cut into stages, one a rank, or one a device of this process; "
         "mirrored: the devices of this process share each batch; dataparallel: the same, and the first device alone updates; without it: one device");
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

void add_pipeline_options(po::options_description& options) {
  auto option = options.add_options();
  option("pipeline-stages", po::value<std::int64_t>()->default_value(0),
         "stages of a pipeline, a divisor of the ranks: the others are copies that share each batch (default: as many as ranks)");
  option("microbatches", po::value<std::int64_t>()->default_value(0),
         "parts of a batch that follow each other through a pipeline; 1: plain model parallelism "
         "(default: the most, up to four a stage, of which the model accepts every one)");
  option("stages", po::value<std::string>()->default_value("auto"), "auto: by measured cost; or the first module of each stage but the first: layer2,layer4");
}

void add_schedule_options(po::options_description& options) {
  auto option = options.add_options();
  option("pipeline-schedule", po::value<std::string>()->default_value("1f1b"), "gpipe, 1f1b or interleaved");
  option("virtual-stages", po::value<std::int64_t>()->default_value(2), "pieces of the model that a stage has, with interleaved");
}

std::int64_t PipelineOptions::micro_batches_of(std::int64_t samples, int ranks) const {
  const int p = shape(ranks).stages;
  const std::int64_t m = std::min<std::int64_t>(micro_batches ? micro_batches : kMostByDefault * p, samples);
  if (schedule != parallel::ScheduleKind::interleaved) return m;
  if (micro_batches % p != 0)
    throw UsageError(
        fmt::format("--microbatches: {} with --pipeline-schedule interleaved over {} stages; accepted: a multiple of the stages", micro_batches, p));
  if (m < p)
    throw UsageError(fmt::format(
        "--pipeline-schedule: interleaved with {} samples over {} stages; accepted: as many samples as stages in every batch, the last one too; gpipe; 1f1b",
        samples, p));
  return m - m % p;  // a smaller batch has fewer
}

bool ParallelOptions::in_one_process() const { return style == "mirrored" || style == "dataparallel" || (pipeline && !parallel::mpi_launch()); }

int ParallelOptions::copies(int ranks) const {
  if (!pipeline) return ranks;
  const int stages = pipeline->shape(ranks).stages;
  if (ranks % stages != 0) throw UsageError(fmt::format("--pipeline-stages: {} stages on {} ranks; accepted: a divisor of the ranks", stages, ranks));
  return ranks / stages;
}

void ParallelOptions::check_ranks(std::int64_t batch_size, int ranks) const {
  const int shards = copies(ranks);
  if (batch_size < shards)
    throw UsageError(fmt::format("--batch-size: {} samples are for {} {}; accepted: one a {} or more", batch_size, shards,
                                 pipeline ? "copies of the pipeline" : "ranks", pipeline ? "copy" : "rank"));
  if (!pipeline) return;
  if (pipeline->micro_batches > batch_size / shards)
    throw UsageError(fmt::format("--microbatches: {} of {} samples that a copy of the model has of a batch; accepted: at most one a sample",
                                 pipeline->micro_batches, batch_size / shards));
  if (shards == 1 && !sums_option.empty())
    throw UsageError(fmt::format(
        "--{}: it is given with a pipeline of one copy, in which no gradients are summed over ranks; accepted: with --pipeline-stages, for several copies",
        sums_option));
}

ParallelOptions parallel_options(const po::variables_map& v) {
  ParallelOptions o;
  o.style = v["parallel"].as<std::string>();
  if (!o.style.empty()) check_choice("--parallel", o.style, {"ddp", "horovod", "pipeline", "mirrored", "dataparallel"});
  if (o.style == "horovod") o.horovod = parallel::horovod::options_from_environment();
  o.devices = device_names(v["devices"].as<std::string>());
  if (v.count("compression")) read_gradient_options(v, o);
  if (v.count("balance")) {
    check_choice("--balance", v["balance"].as<std::string>(), {"even", "auto"});
    o.balances = v["balance"].as<std::string>() == "auto";
  }
  if (o.style == "pipeline") {
    o.pipeline = read_pipeline_options(v);
  }
  const auto collective = v["collective"].as<std::string>();
  check_choice("--collective", collective, {"auto", "ring", "tree", "shared", "hierarchical", "mpi"});
  o.collective = parallel::parse_algorithm(collective);
  o.watch = {
      .heartbeat_s = seconds_option(v, "heartbeat"), .stall_warning_s = seconds_option(v, "stall-warning"), .interface = v["interface"].as<std::string>()};
  check_used(v, o);
  check_pipeline(v, o);
  return o;
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

distributed::DataParallelOptions ParallelOptions::data_parallel(const Asked& asked) const {
  parallel::ReducerOptions all = reducer;
  all.check_finite = asked.check_finite;
  all.keeps_spans = asked.keeps_spans;
  return {.reducer = all,
          .buffers = style == "mirrored" ? distributed::Buffers::mean : distributed::Buffers::of_rank_0,
          .replicas = style == "dataparallel" ? distributed::Replicas::copied_each_step : distributed::Replicas::kept,
          .norm = sync_bn ? distributed::NormOver::batch : distributed::NormOver::shard,
          .horovod = asked.horovod,
          .balance = asked.balance};
}

}  // namespace gemel::cli
