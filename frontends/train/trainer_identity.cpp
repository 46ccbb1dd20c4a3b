// identity_of of frontends/train/trainer.h: what identifies every run of a trainer.
#include <fmt/format.h>

#include "engine/device/device_facts.h"
#include "frontends/train/trainer.h"

namespace gemel::train {
namespace {

/// With what it is measured by: a cosine ends at 0 where the run ends, and so does a linear one.
std::string schedule_text(const TrainerOptions& o) {
  const auto name = optim::schedule_names()[static_cast<std::size_t>(o.schedule)];
  if (o.schedule == optim::Schedule::constant || o.schedule == optim::Schedule::step) return std::string(name);
  const std::string over = o.steps ? fmt::format("{} over {} steps", name, o.steps) : fmt::format("{} over {} epochs", name, o.epochs);
  if (o.schedule == optim::Schedule::cosine) return over;
  return o.warmup.share > 0 ? fmt::format("{}, the first {} of them to warm up", over, o.warmup.share)
                            : fmt::format("{}, {} steps to warm up", over, o.warmup.steps);
}

}  // namespace

RunIdentity identity_of(Session& session, const TrainerOptions& o, const datasets::BatchSource& data) {
  const DeviceFacts device = facts_of(session);
  return {{"seed", std::to_string(session.seed()), Bearing::sample_order},
          {"samples", std::to_string(data.samples()), Bearing::sample_order},
          {kBatches, std::to_string(data.batches()), Bearing::sample_order},
          {kMicroBatches, std::to_string(o.step.accumulate), Bearing::setting},
          {"learning rate", fmt::format("{}", o.rate), Bearing::setting},
          {"learning rate schedule", schedule_text(o), Bearing::setting},
          {"largest gradient norm", o.clip_norm > 0 ? fmt::format("{}", o.clip_norm) : "none", Bearing::setting},
          {"device", device.name, Bearing::last_bits},
          {"platform", device.platform, Bearing::last_bits},
          {"driver", device.driver, Bearing::last_bits},
          {"threads", std::to_string(device.compute_units), Bearing::last_bits},
          {"tuning", device.tuning, Bearing::last_bits},
          {"build", build_identity(), Bearing::last_bits},
          {"front end", to_string(o.step.frontend), Bearing::last_bits}};
}

}  // namespace gemel::train
