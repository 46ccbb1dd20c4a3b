// Options of `gemel launch`.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontends/cli/command.h"
#include "frontends/cli/options/train_options.h"

namespace gemel::cli {

struct Host {
  std::string name;
  std::int64_t slots = 1;  // number of processes
};

struct LaunchOptions {
  std::int64_t ranks = 0;
  std::vector<Host> hosts;  // empty: this machine
  std::optional<std::int64_t> restarts;
  bool checks = false;
  std::vector<std::pair<std::string, std::string>> environment;  // name and value, for ranks on every machine
  Arguments command;                                             // of each rank, "train" first
  bool outlives_ranks = false;                                   // the command goes on where some ranks are lost
  std::optional<TrainOptions> training;                          // the command's options, as far as launch needs them
};

/// @throws UsageError
LaunchOptions parse_launch(const Arguments& arguments);

/// "a:2,b:2"
std::string text_of(const std::vector<Host>& hosts);
std::int64_t slots_of(const std::vector<Host>& hosts);

}  // namespace gemel::cli
