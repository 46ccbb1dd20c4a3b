#include "frontends/cli/run_scope.h"

#include <exception>
#include <utility>

#include "engine/base/file.h"
#include "frontends/cli/interrupt.h"
#include "frontends/cli/say.h"
#include "opencl/tuning.h"

namespace gemel::cli {

nlohmann::ordered_json json_of(const opencl::DeviceProfile& p) {
  return {{"platform", p.platform}, {"name", p.name}, {"version", p.version}, {"driver", p.driver}, {"type", to_string(p.kind)},
          {"compute_units", p.compute_units}, {"global_bytes", p.global_bytes}, {"tuning", opencl::tuning_name(p)}};
}

RunScope::RunScope(CommonOptions options, const char* command, const std::vector<std::string>& arguments)
    : options_(std::move(options)), argv_{"gemel", command}, log_(options_.log_dir) {
  argv_.insert(argv_.end(), arguments.begin(), arguments.end());
}

int RunScope::carry_out(const std::function<void()>& body) {
  const InterruptGuard interrupts;
  try {
    if (!options_.profile.empty()) check_can_write(options_.profile);
    body();
  } catch (const Interrupted&) {
    end("interrupted");
    return 1;
  } catch (...) {
    try {
      end("failed");
    } catch (...) {
      // The error that ended the run matters more than a record on a full disk.
    }
    throw;
  }
  end("ok");
  return 0;
}

void RunScope::open_device() {
  opencl::DeviceOptions device = options_.device;
  device.profiling = options_.profile.empty() ? opencl::Profiling::sampled : opencl::Profiling::all;
  device_ = opencl::Device::open(device);
  say_device(device_->profile());
  session_ = std::make_unique<Session>(device_, options_.seed);
  times_.emplace(*device_, options_.profile);
}

void RunScope::log_start(const std::string& model_name, const nn::Module& model, const nlohmann::ordered_json& more) {
  nlohmann::ordered_json line{{"event", "start"}, {"argv", argv_}, {"version", GEMEL_VERSION}, {"device", json_of(device_->profile())},
                              {"model", model_name}, {"parameters", model.parameter_elements()}, {"ranks", 1}};
  if (!more.is_null()) line.update(more);
  log_.event(line);
  summary_["model"] = model_name;
  summary_["parameters"] = model.parameter_elements();
}

void RunScope::check_interrupt() {
  times_->begin_step();
  if (!InterruptGuard::interrupted()) return;
  say("interrupted\n");
  throw Interrupted();
}

/// Every part is attempted: a trace that cannot be written takes nothing from the log.
void RunScope::end(std::string status) {
  std::exception_ptr first;
  const auto attempt = [&](const std::function<void()>& write) {
    try {
      write();
    } catch (...) {
      if (!first) first = std::current_exception();
      status = "failed";
    }
  };
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  attempt([&] {
    if (times_) times_->write_trace();
  });
  attempt([&] { log_.event({{"event", "end"}, {"seconds", seconds}, {"status", status}}); });
  attempt([&] {
    nlohmann::ordered_json all{{"status", status}, {"seconds", seconds}};
    if (device_) all["device"] = json_of(device_->profile());
    all.update(summary_);
    log_.summarise(all);
  });
  if (first) std::rethrow_exception(first);
}

}  // namespace gemel::cli
