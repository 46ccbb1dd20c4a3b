#include "frontends/train/checkpoint/run_identity.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/hash.h"
#include "engine/device/device_facts.h"
#include "frontends/train/trainer.h"

namespace gemel::train {
namespace {

const char* consequence(Bearing bearing) {
  return bearing == Bearing::last_bits ? "results may differ in the last bits" : "the run goes on with the new one";
}

/// With what it is measured by: a cosine ends at 0 where the run ends, and so does a linear one.
std::string schedule_text(const TrainerOptions& o) {
  const auto name = optim::schedule_names()[static_cast<std::size_t>(o.schedule)];
  if (o.schedule == optim::Schedule::constant || o.schedule == optim::Schedule::step) return std::string(name);
  const std::string over = o.steps ? fmt::format("{} over {} steps", name, o.steps) : fmt::format("{} over {} epochs", name, o.epochs);
  if (o.schedule == optim::Schedule::cosine) return over;
  return o.warmup.share > 0 ? fmt::format("{}, the first {} of them to warm up", over, o.warmup.share) : fmt::format("{}, {} steps to warm up", over, o.warmup.steps);
}

}  // namespace

/// Any rebuild that changes the program may change a bit.
const std::string& build_identity() {
  static const std::string hash = fmt::format("{:016x}", hash_of(read_whole("/proc/self/exe")));
  return hash;
}

RunIdentity identity_of(Session& session, const TrainerOptions& o, const datasets::BatchSource& data) {
  const DeviceFacts device = facts_of(session);
  return {{"seed", std::to_string(session.seed()), Bearing::sample_order},
          {"samples", std::to_string(data.samples()), Bearing::sample_order},
          {kBatches, std::to_string(data.batches()), Bearing::sample_order},
          {"micro-batches", std::to_string(o.step.accumulate), Bearing::setting},
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

std::string metadata_key(const IdentityPart& part) { return "identity." + part.name; }

std::vector<std::string> differences_from(const FileMetadata& checkpoint, const RunIdentity& now, bool middle_of_epoch) {
  std::vector<std::string> out;
  for (const IdentityPart& part : now) {
    const auto it = checkpoint.find(metadata_key(part));
    if (it != checkpoint.end() && it->second == part.value) continue;
    const std::string was = it == checkpoint.end() ? "unknown" : it->second;
    const std::string change = fmt::format("{} was '{}', is now '{}'", part.name, was, part.value);
    if (it != checkpoint.end() && part.bearing == Bearing::state)
      throw DataError(fmt::format("resume: {}; accepted: '{}', which the checkpoint is of", change, was));
    if (it != checkpoint.end() && part.bearing == Bearing::sample_order && middle_of_epoch)
      throw DataError(fmt::format("resume: {} in the middle of an epoch, whose samples would be left out or met twice; accepted: '{}'", change, was));
    out.push_back(fmt::format("{}; {}", change, consequence(part.bearing)));
  }
  return out;
}

}  // namespace gemel::train
