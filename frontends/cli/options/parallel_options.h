// The options of runs that several ranks share.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/options/arguments.h"
#include "frontends/cli/options/run_spec.h"
#include "frontends/distributed/data_parallel.h"
#include "parallel/all_reduce_algorithm.h"
#include "parallel/ddp/reducer.h"
#include "parallel/watch/failure_detector.h"

namespace gemel::cli {

/// Where a rank computes.
struct DeviceName {
  std::string platform;  // empty: as --platform says
  std::string device;    // as --device takes it
};

/// What a command does with its ranks.
enum class Purpose { train, evaluate, infer };

class Strategy;

/// The options that styles share. What a style has for itself is in its strategy.
struct ParallelOptions {
  std::shared_ptr<const Strategy> strategy;
  std::vector<DeviceName> devices;  // one a rank of the machine, or a replica of the process; empty: as the machine has them
  bool sync_bn = false;
  bool balances = false;  // shares of the batch by rate
  parallel::ReducerOptions reducer;
  std::string compression_text = "none";
  std::optional<parallel::Algorithm> collective;
  parallel::WatchOptions watch;
};

/// What tells builds of the program apart.
std::vector<distributed::Setting> program_settings();
/// What ranks of a run must have alike: the program, and its options but for those of each rank's own devices and files.
std::vector<distributed::Setting> settings_of(const Json& spec);

void add_parallel_options(po::options_description& options);
/// Those of gradients and normalisation, for commands that train.
void add_gradient_options(po::options_description& options);
/// Those that styles have for themselves.
void add_style_options(po::options_description& options, Purpose purpose);
/// How a run's batches are shared.
void add_balance_option(po::options_description& options);
/// @throws UsageError
ParallelOptions parallel_options(const po::variables_map& values);
/// The same of a command line of these options alone.
ParallelOptions parallel_options(const std::vector<std::string>& words);

}  // namespace gemel::cli
