#include "frontends/train/checkpoint/run_identity.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/hash.h"

namespace gemel::train {
namespace {

const char* consequence(Bearing bearing) { return bearing == Bearing::last_bits ? "results may differ in the last bits" : "the run goes on with the new one"; }

}  // namespace

/// Any rebuild that changes the program may change a bit.
const std::string& build_identity() {
  static const std::string hash = fmt::format("{:016x}", hash_of(read_whole("/proc/self/exe")));
  return hash;
}

std::string metadata_key(const IdentityPart& part) { return part.bearing == Bearing::none ? part.name : "identity." + part.name; }

std::optional<std::string> part_in(const FileMetadata& checkpoint, const std::string& name) {
  const auto it = checkpoint.find(metadata_key({name, "", Bearing::setting}));
  return it == checkpoint.end() ? std::nullopt : std::optional(it->second);
}

std::vector<std::string> differences_from(const FileMetadata& checkpoint, const RunIdentity& now, bool middle_of_epoch) {
  std::vector<std::string> out;
  for (const IdentityPart& part : now) {
    const auto it = checkpoint.find(metadata_key(part));
    const std::string was = it == checkpoint.end() ? part.before : it->second;
    if (part.bearing == Bearing::none || was == part.value) continue;
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
