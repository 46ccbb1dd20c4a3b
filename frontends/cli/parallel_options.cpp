#include "frontends/cli/parallel_options.h"

#include <cmath>

#include "engine/base/error.h"

namespace gemel::cli {
namespace {

std::int64_t bucket_bytes(const po::variables_map& v, const char* name) {
  const double megabytes = v[name].as<double>();
  check_range(std::string("--") + name, megabytes, 1e-6, 1e6);
  return std::llround(megabytes * (1 << 20));
}

double seconds(const po::variables_map& v, const char* name) {
  const double s = v[name].as<double>();
  check_range(std::string("--") + name, s, 0, 1e6);
  return s;
}

}  // namespace

void add_parallel_options(po::options_description& options) {
  options.add_options()
      ("parallel", po::value<std::string>()->default_value(""), "ddp: the processes that mpirun started share each batch; none: one process")
      ("bucket-mb", po::value<double>()->default_value(25, "25"), "MiB of gradients that are summed over the ranks at once")
      ("first-bucket-mb", po::value<double>()->default_value(1, "1"), "the same of the first, so that communication begins early")
      ("compression", po::value<std::string>()->default_value("none"), "of gradients on their way: none, fp16 or bf16")
      ("collective", po::value<std::string>()->default_value("auto"), "algorithm of all-reduce: auto, ring, tree, shared, hierarchical or mpi")
      ("heartbeat", po::value<double>()->default_value(8, "8"), "seconds after which a silent rank counts as lost; 0: never")
      ("stall-warning", po::value<double>()->default_value(60, "60"), "seconds after which a rank that lives and makes no progress is warned of; 0: never")
      ("interface", po::value<std::string>()->default_value(""), "network interface by which ranks watch each other (default: all are tried)");
}

ParallelOptions parallel_options(const po::variables_map& v) {
  ParallelOptions o;
  o.style = v["parallel"].as<std::string>();
  if (!o.style.empty()) check_choice("--parallel", o.style, {"ddp"});
  o.reducer.buckets = {bucket_bytes(v, "bucket-mb"), bucket_bytes(v, "first-bucket-mb")};
  const auto compression = v["compression"].as<std::string>();
  check_choice("--compression", compression, {"none", "fp16", "bf16"});
  o.reducer.wire = compression == "fp16" ? parallel::Wire::float16 : compression == "bf16" ? parallel::Wire::bfloat16 : parallel::Wire::float32;
  const auto collective = v["collective"].as<std::string>();
  check_choice("--collective", collective, {"auto", "ring", "tree", "shared", "hierarchical", "mpi"});
  o.collective = parallel::parse_algorithm(collective);
  o.watch = {.heartbeat_s = seconds(v, "heartbeat"), .stall_warning_s = seconds(v, "stall-warning"), .interface = v["interface"].as<std::string>()};
  return o;
}

}  // namespace gemel::cli
