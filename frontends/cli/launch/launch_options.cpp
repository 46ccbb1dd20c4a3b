#include "frontends/cli/launch/launch_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <numeric>

#include "engine/base/error.h"
#include "engine/base/resource_limits.h"
#include "frontends/cli/commands/specs.h"
#include "frontends/cli/job/launch_messages.h"
#include "frontends/cli/strategies/strategy.h"

namespace gemel::cli {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;

po::options_description launch_options() {
  po::options_description options("options", 110);
  auto option = options.add_options();
  option("np", po::value<std::int64_t>(), "processes");
  option("hosts", po::value<std::string>(), "machines and their processes, such as a:2,b:2 (default: this machine)");
  option(
      "env", po::value<std::vector<std::string>>()->composing(),
      "NAME or NAME=VALUE: a variable that the processes get on every machine, as those whose names begin with GEMEL_ or HOROVOD_; may be given several times");
  option("restarts", po::value<std::int64_t>(),
         "how often train goes on from its newest checkpoint where a process or a machine is lost; needs --checkpoint-dir");
  option("spec", po::value<std::string>(), "a run as JSON, in place of the command that is started; its np, hosts and env where the line has none");
  option("print-spec", po::bool_switch(), "print the run that is started as JSON, and end");
  option("check", po::bool_switch(), "say whether hosts, MPI, devices, builds, data and checkpoint folder fit, and end without training");
  return options;
}

Host parse_host(const std::string& word, const std::string& list) {
  const std::size_t colon = std::min(word.find(':'), word.size());
  Host host{word.substr(0, colon)};
  // A name that begins with a dash would be an option of ssh.
  bool is_one = !host.name.empty() && host.name.front() != '-' &&
                std::ranges::all_of(host.name, [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '-' || c == '_'; });
  if (colon < word.size()) {
    const char* end = word.data() + word.size();
    const auto [rest, error] = std::from_chars(word.data() + colon + 1, end, host.slots);
    is_one = is_one && error == std::errc() && rest == end && host.slots >= 1 && host.slots <= kMostRanks;
  }
  if (!is_one) throw UsageError(fmt::format("--hosts: '{}' has '{}'; accepted: HOST or HOST:PROCESSES, with commas between, such as a:2,b:2", list, word));
  return host;
}

/// A host that is named twice has the slots of both.
std::vector<Host> parse_hosts(const std::string& list) {
  std::vector<Host> out;
  for (const std::string& word : split_at_commas(list)) {
    const Host host = parse_host(word, list);
    const auto same = std::ranges::find(out, host.name, &Host::name);
    if (same == out.end())
      out.push_back(host);
    else
      same->slots += host.slots;
  }
  return out;
}

/// @param word  NAME=VALUE, or NAME for the value here
std::pair<std::string, std::string> parse_variable(const std::string& word) {
  const std::size_t end = std::min(word.find('='), word.size());
  const std::string name = word.substr(0, end);
  const auto is_of_name = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) || !std::ranges::all_of(name, is_of_name))
    throw UsageError(fmt::format("--env: '{}' names no variable; accepted: NAME or NAME=VALUE, a name of letters, digits and _", word));
  if (name == Launched::kVariable)
    throw UsageError(fmt::format("--env: {} is what gemel launch itself tells its processes by; accepted: another variable", name));
  if (end < word.size()) return {name, word.substr(end + 1)};
  const char* here = std::getenv(name.c_str());
  if (here == nullptr) throw UsageError(fmt::format("--env: {} has no value here; accepted: a variable that is set, or {}=VALUE", name, name));
  return {name, here};
}

/// Why there is nothing to start.
std::string no_command_in(const Arguments& arguments) {
  const po::options_description options = launch_options();
  bool is_value = false;
  for (const std::string& word : arguments) {
    if (!is_value && !word.starts_with("-")) {
      const std::string near = nearest(word, {"train", "bench", "eval"});
      return fmt::format("'{}' is no command that it starts{}", word, near.empty() ? "" : ", did you mean '" + near + "'?");
    }
    const auto* option = word.starts_with("--") ? options.find_nothrow(word.substr(2), false) : nullptr;
    is_value = option && option->semantic()->max_tokens() > 0;
  }
  return "there is no command that it starts";
}

// What a spec says of the launch.
std::int64_t processes_of(const Json& spec) {
  const Json& np = spec.at("np");
  if (!np.is_number_integer()) throw UsageError(fmt::format("spec: np: {} is not accepted; accepted: a whole number of processes", np.dump()));
  check_range("spec: np", np.get<double>(), 1, kMostRanks);
  return np.get<std::int64_t>();
}
std::string text_in(const Json& spec, const char* key) {
  const Json value = spec.is_null() ? Json("") : spec.value(key, Json(""));
  if (!value.is_string()) throw UsageError(fmt::format("spec: {}: {} is not accepted; accepted: a text", key, value.dump()));
  return value.get<std::string>();
}
Arguments variables_of(const Json& spec) {
  const Json value = spec.is_null() ? Json::array() : spec.value("env", Json::array());
  if (!value.is_array() || !std::ranges::all_of(value, [](const Json& one) { return one.is_string(); }))
    throw UsageError(fmt::format("spec: env: {} is not accepted; accepted: a list of NAME or NAME=VALUE", value.dump()));
  return value.get<Arguments>();
}

/// What a machine cannot hold it would be busy with for minutes.
void check_fits(const LaunchOptions& launch) {
  constexpr std::int64_t kMostOfCore = 16;
  const std::int64_t cores = allowed_cores().count(), most = kMostOfCore * cores;
  if (launch.hosts.empty() && launch.ranks > most)
    throw UsageError(
        fmt::format("launch: --np {} is more than {} processes for each of the cores that may be used here, {} in all; accepted: --np {} or less, or --hosts",
                    launch.ranks, kMostOfCore, cores, most));
}

void check_parallel(const LaunchOptions& launch) {
  const auto is_parallel = [](const std::string& word) { return word == "--parallel" || word.starts_with("--parallel="); };
  if (launch.ranks == 1 || std::ranges::any_of(launch.command, is_parallel)) return;
  throw UsageError(
      fmt::format("launch: --parallel is missing, so that each of {} processes would run for itself and write the same files; accepted: gemel launch --np {} "
                  "{} --parallel ddp ...",
                  launch.ranks, launch.ranks, launch.command.front()));
}

/// Of a command that is a run's, by the style that its words or its spec name.
bool outlives_ranks(const Arguments& command) {
  if (command.front() != "train") return false;
  std::string named;
  for (std::size_t i = 1; i < command.size(); ++i) {
    if (command[i].starts_with("--parallel=")) named = command[i].substr(command[i].find('=') + 1);
    if (i + 1 == command.size()) break;
    if (command[i] == "--parallel") named = command[i + 1];
    if (const Json spec = command[i] == "--spec" ? Json::parse(command[i + 1], nullptr, false) : Json(); spec.is_object() && named.empty())
      named = spec.value("parallel", std::string());
  }
  return std::ranges::any_of(styles(), [&](const Style* style) { return style->outlives_ranks && named == style->name; });
}

struct RunCommand {
  const char* name;
  Json (*spec)(const Arguments& arguments);
};
constexpr RunCommand kRunCommands[] = {{"train", train_spec}, {"bench", bench_spec}, {"eval", eval_spec}};
bool is_command(const std::string& word) { return std::ranges::find(kRunCommands, word, &RunCommand::name) != std::end(kRunCommands); }

/// Its ranks get it without what is the launcher's.
Arguments command_of(Json spec, std::int64_t ranks) {
  const std::string command = spec.value("command", std::string()), name = command.substr(0, command.find(' '));
  if (!is_command(name))
    throw UsageError(fmt::format("spec: command: '{}' is given with gemel launch; accepted: train, eval, bench train, bench infer", command));
  spec["np"] = ranks;
  return {name, "--spec", spec.dump()};
}

/// --print-spec of the launch, or of the command that is started.
void print_if_asked(const LaunchOptions& launch, bool is_asked) {
  const auto asks = [](const std::string& word) { return word == "--print-spec"; };
  if (!is_asked && std::ranges::none_of(launch.command, asks)) return;
  if (launch.checks) throw UsageError("launch: --print-spec is given with --check, and both end without training; accepted: one of them");
  Arguments words(launch.command.begin() + 1, launch.command.end());
  std::erase_if(words, asks);
  Json spec = std::ranges::find(kRunCommands, launch.command.front(), &RunCommand::name)->spec(words);
  spec["np"] = launch.ranks;
  spec["hosts"] = text_of(launch.hosts);
  spec["env"] = Json::array();
  for (const auto& [name, value] : launch.environment) spec["env"].push_back(name + "=" + value);
  fmt::print("{}\n", spec.dump(1));
  throw HelpWanted();
}

/// What restarts and the check go by.
void read_training(LaunchOptions& launch) {
  const char* option = launch.restarts ? "--restarts" : "--check";
  if (launch.command.front() != "train") throw UsageError(fmt::format("launch: {} is given with {}; accepted: with train", option, launch.command.front()));
  launch.training = parse_train_options({launch.command.begin() + 1, launch.command.end()});
  if (launch.restarts && launch.training->checkpoint_dir.empty())
    throw UsageError(
        fmt::format("launch: --restarts {} is given without --checkpoint-dir, so that there is nothing to go on from; accepted: gemel launch --np {} "
                    "--restarts {} train --checkpoint-dir DIR ...",
                    *launch.restarts, launch.ranks, *launch.restarts));
}

}  // namespace

/// Options of the launch come before the command that it starts.
LaunchOptions parse_launch(const Arguments& arguments) {
  const auto command = std::ranges::find_if(arguments, is_command);
  const bool asks_for_help = std::ranges::any_of(arguments.begin(), command, [](const std::string& word) { return word == "--help" || word == "-h"; });
  const Arguments own{arguments.begin(), command};
  const Json spec = spec_file(own);
  if (!spec.is_null() && command != arguments.end())
    throw UsageError(fmt::format("launch: --spec is given with the command {}; accepted: one of them", *command));
  if (command == arguments.end() && !asks_for_help && spec.is_null())
    throw UsageError(fmt::format("launch: {}; accepted: train, bench or eval, such as gemel launch --np 2 train --parallel ddp ...", no_command_in(arguments)));
  const auto v =
      parse("launch --np N train ... --parallel ddp", "Starts the processes of a job with mpirun, with what the machine needs.", launch_options(), own);
  if (!v.count("np") && !spec.contains("np")) throw UsageError("launch: --np is missing; accepted: gemel launch --np 2 train --parallel ddp ...");
  LaunchOptions out{.ranks = v.count("np") ? whole_number(v, "np", 1, kMostRanks) : processes_of(spec),
                    .checks = v["check"].as<bool>(),
                    .command = {command, arguments.end()}};
  if (!spec.is_null()) out.command = command_of(spec, out.ranks);
  if (const std::string hosts = v.count("hosts") ? v["hosts"].as<std::string>() : text_in(spec, "hosts"); !hosts.empty()) out.hosts = parse_hosts(hosts);
  if (const std::int64_t slots = slots_of(out.hosts); !out.hosts.empty() && slots < out.ranks)
    throw UsageError(
        fmt::format("launch: --np {} is more than --hosts {} takes, {} in all; accepted: --np {} or less, or more processes a host (HOST:PROCESSES)", out.ranks,
                    text_of(out.hosts), slots, slots));
  for (const std::string& word : v.count("env") ? v["env"].as<Arguments>() : variables_of(spec)) out.environment.push_back(parse_variable(word));
  if (v.count("restarts")) out.restarts = whole_number(v, "restarts", 0, 1e9);
  if (spec.is_null()) check_parallel(out);
  print_if_asked(out, v["print-spec"].as<bool>());
  check_fits(out);
  out.outlives_ranks = outlives_ranks(out.command);
  if (out.restarts || out.checks) read_training(out);
  return out;
}

std::string text_of(const std::vector<Host>& hosts) {
  std::string out;
  for (const Host& host : hosts) out += fmt::format("{}{}:{}", out.empty() ? "" : ",", host.name, host.slots);
  return out;
}

std::int64_t slots_of(const std::vector<Host>& hosts) {
  return std::accumulate(hosts.begin(), hosts.end(), std::int64_t{0}, [](std::int64_t sum, const Host& host) { return sum + host.slots; });
}

}  // namespace gemel::cli
