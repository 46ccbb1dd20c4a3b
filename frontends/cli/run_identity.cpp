#include "frontends/cli/run_identity.h"

#include <fmt/format.h>

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "opencl/tuning.h"

namespace gemel::cli {
namespace {

/// Any rebuild that changes the program may change a bit.
std::string build_identity() { return fmt::format("{:016x}", hash_of(MappedFile("/proc/self/exe").bytes())); }

std::string number(double value) { return fmt::format("{}", value); }
const char* on_off(bool value) { return value ? "on" : "off"; }

/// With what it is measured by: a cosine ends at 0 where the run ends.
std::string schedule_text(const TrainOptions& o) {
  const auto name = optim::schedule_names()[static_cast<std::size_t>(o.schedule)];
  if (o.schedule != optim::Schedule::cosine) return std::string(name);
  return o.steps ? fmt::format("{} over {} steps", name, o.steps) : fmt::format("{} over {} epochs", name, o.epochs);
}

const char* gemm_text(opencl::GemmChoice choice) {
  return choice == opencl::GemmChoice::clblast ? "clblast" : choice == opencl::GemmChoice::native ? "native" : "auto";
}

}  // namespace

train::RunIdentity identity_of(const TrainOptions& o, const datasets::Dataset& data, const opencl::DeviceProfile& profile) {
  using train::Bearing;
  const optim::Settings optimizer = optim::with_defaults(o.optimizer_name, o.optimizer);
  return {{"model", o.model, Bearing::state},
          {"classes", std::to_string(data.classes()), Bearing::state},
          {"data set", o.dataset.name, Bearing::sample_order},
          {"samples", std::to_string(data.size()), Bearing::sample_order},
          {"batch size", std::to_string(o.batch_size), Bearing::sample_order},
          {"micro-batches", std::to_string(o.accumulate), Bearing::setting},
          {"seed", std::to_string(o.common.seed), Bearing::sample_order},
          {"shuffle", on_off(o.shuffle == datasets::Shuffle::on), Bearing::sample_order},
          {"input", to_string(data.shape()), Bearing::setting},
          {"augment", o.augment == datasets::Augment::standard ? "standard" : "none", Bearing::setting},
          {"normalize", o.dataset.normalize == datasets::Normalize::standard ? "standard" : "none", Bearing::setting},
          {"optimizer", o.optimizer_name, Bearing::state},
          {"learning rate", number(o.rate), Bearing::setting},
          {"learning rate schedule", schedule_text(o), Bearing::setting},
          {"momentum", number(optimizer.momentum.value_or(0)), Bearing::setting},
          {"weight decay", number(*optimizer.weight_decay), Bearing::setting},
          {"largest gradient norm", o.clip_norm > 0 ? number(o.clip_norm) : "none", Bearing::setting},
          {"dropout", o.dropout ? number(*o.dropout) : "the model's", Bearing::setting},
          {"frozen backbone", on_off(o.freeze_backbone), Bearing::setting},
          {"device", profile.name, Bearing::last_bits},
          {"platform", profile.platform, Bearing::last_bits},
          {"driver", profile.driver, Bearing::last_bits},
          {"threads", std::to_string(profile.compute_units), Bearing::last_bits},
          {"tuning", opencl::tuning_name(profile), Bearing::last_bits},
          {"build", build_identity(), Bearing::last_bits},
          {"front end", to_string(o.frontend), Bearing::last_bits},
          {"graph passes", o.common.passes_text, Bearing::last_bits},
          {"GEMM provider", gemm_text(o.common.device.gemm), Bearing::last_bits}};
}

}  // namespace gemel::cli
