// RunIdentity: what must be equal for a run to resume from a checkpoint, and what follows from a difference.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/files/safetensors.h"

namespace gemel::train {

/// Effect of a difference. last_bits: results differ in the last bits. setting: training continues with another setting. sample_order: samples are left out or
/// repeated, if the run is within an epoch. state: weights or optimizer state have other names or shapes. none: the part is a record only.
enum class Bearing { last_bits, setting, sample_order, state, none };

struct IdentityPart {
  std::string name, value;
  Bearing bearing;
  const char* before = "unknown";  // what a checkpoint had that does not tell
};
using RunIdentity = std::vector<IdentityPart>;

/// Identifies the build of the program.
const std::string& build_identity();

/// Names of parts. A run that has the second one is identified without the first.
inline constexpr const char *kBatches = "number of batches", *kBatchSize = "batch size";
inline constexpr const char *kMicroBatches = "micro-batches", *kNormalisedOver = "normalised over";

/// Returns the metadata key of a part.
std::string metadata_key(const IdentityPart& part);
/// Returns the value of a part that bears on results, if the checkpoint has one.
std::optional<std::string> part_in(const FileMetadata& checkpoint, const std::string& name);

/// Returns one line for each part that differs from the checkpoint's, with the effect.
/// @param middle_of_epoch  true: the checkpoint was made within an epoch
/// @throws DataError if the run cannot resume: another model or optimizer, or another order of samples within an epoch
std::vector<std::string> differences_from(const FileMetadata& checkpoint, const RunIdentity& now, bool middle_of_epoch);

}  // namespace gemel::train
