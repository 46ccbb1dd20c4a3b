#include "frontends/cli/run/run_scope.h"

#include <exception>
#include <system_error>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/files/file.h"
#include "frontends/cli/job/launch_messages.h"
#include "frontends/cli/system/console.h"
#include "frontends/distributed/data_parallel.h"

namespace gemel::cli {
namespace {

std::vector<std::string> command_line(const char* command, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"gemel", command};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

/// The same however it is given.
std::string name_of(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::weakly_canonical(folder.empty() ? "." : folder, error).string();
}

nlohmann::ordered_json first_line(const std::vector<std::string>& argv, const nlohmann::ordered_json& about) {
  nlohmann::ordered_json line{{"argv", argv}};
  line.update(about);
  return line;
}

}  // namespace

RunScope::RunScope(CommonOptions options, const char* command, const std::vector<std::string>& arguments, const nlohmann::ordered_json& about)
    : options_(std::move(options)),
      argv_(command_line(command, arguments)),
      log_(options_.log_dir, first_line(argv_, about), [](const std::string& line) { say("{}\n", line); }) {
  log_.begin();
}

int RunScope::carry_out(const std::function<void()>& body) {
  const InterruptGuard interrupts;
  try {
    if (options_.writes_profile()) check_can_write(options_.profile);
    body();
  } catch (const Interrupted&) {
    end("interrupted");
    return Launched::failed();
  } catch (...) {
    try {
      end("failed");
    } catch (...) {
      // The error that ended the run matters more than a trace on a full disk.
    }
    throw;
  }
  end("ok");
  return 0;
}

void RunScope::open_device() {
  set_denormals(options_.device.denormals);
  open_as_asked();
  say_device(device_->profile());
}

void RunScope::open_device(Job& job) {
  open_device();
  if (options_.device.precision != Precision::float32 && job.communication())
    distributed::require_same(*job.communication(), {{"precision of the device's products", to_string(device_->profile().precision())}});
}

void RunScope::ablate(const opencl::Ablation& ablation) {
  if (ablation == options_.device.ablation) return;
  say_unused_variants();
  options_.device.ablation = ablation;
  add_trace(times_->take_trace());
  times_.reset();
  session_.reset();
  device_.reset();  // first: its memory may be needed
  open_as_asked();
}

void RunScope::say_unused_variants() {
  if (!device_) return;
  for (const auto& [op, variant] : device_->profile().preferences.variants)
    if (!*variant.is_used && told_.insert(op + "=" + variant.name).second)
      say("warning: --variant {}={} had no effect: {} was not computed\n", op, variant.name, op);
}

void RunScope::open_as_asked() {
  opencl::DeviceOptions device = options_.device;
  device.profiling = options_.profile.empty() ? opencl::Profiling::sampled : opencl::Profiling::all;
  device_ = opencl::Device::open(device);
  session_ = std::make_unique<Session>(device_, options_.seed);
  times_.emplace(*device_, !options_.profile.empty());
}

void RunScope::log_start(const std::string& model_name, const nn::Module& model) {
  log_.start(*session_, model_name, model.parameter_elements());
  summarise(model_name, model);
}

void RunScope::summarise(const std::string& model_name, const nn::Module& model) {
  summary_["model"] = model_name;
  summary_["parameters"] = model.parameter_elements();
}

bool RunScope::begin_batch(bool interrupted) {
  if (interrupted) {
    say("interrupted\n");
    throw Interrupted();
  }
  return times_->begin_step();
}

std::vector<TraceEvent> RunScope::take_trace() {
  add_trace(times_->take_trace());
  return std::exchange(trace_.events, {});
}

void RunScope::trace_checkpoint(std::int64_t step, const std::filesystem::path& folder) {
  if (options_.profile.empty()) return;
  device_->finish();
  trace_.checkpoints.push_back({step, name_of(folder), steady_ns()});
}

void RunScope::go_on_after(std::int64_t step, const std::filesystem::path& folder) {
  earlier_ = {step, name_of(folder)};
  if (!log_.last_epoch().is_null()) summary_["last_epoch"] = log_.last_epoch();
}

void RunScope::write_profile() {
  add_trace(times_->take_trace());
  write_trace(options_.profile, earlier_ ? continued(read_trace(options_.profile), earlier_->folder, earlier_->step, std::move(trace_)) : std::move(trace_));
}

/// A trace that cannot be written takes nothing from the log.
void RunScope::end(std::string status) {
  std::exception_ptr lost;
  const double seconds = log_.seconds();
  try {
    if (times_ && options_.writes_profile()) write_profile();
  } catch (...) {
    lost = std::current_exception();
    status = "failed";
  }
  if (status == "ok") say_unused_variants();
  nlohmann::ordered_json all{{"status", status}, {"seconds", seconds}};
  if (session_) all["device"] = train::json_of(facts_of(*session_));
  all.update(summary_);
  log_.summarise(all);
  log_.end(status);  // last: who follows the log finds the summary there
  if (lost) std::rethrow_exception(lost);
}

}  // namespace gemel::cli
