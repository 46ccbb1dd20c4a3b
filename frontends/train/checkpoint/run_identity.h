// What makes a run that goes on from a checkpoint the same run, and what a difference means.
#pragma once
#include <string>
#include <vector>

#include "engine/files/safetensors.h"

namespace gemel::train {

/// What follows from a difference: results that differ in the last bits; training by another setting from here on; samples left
/// out or met twice, where the run stands in the middle of an epoch; weights or optimizer state of other names or shapes. Nothing: it is on record alone.
enum class Bearing { last_bits, setting, sample_order, state, none };

struct IdentityPart {
  std::string name, value;
  Bearing bearing;
};
using RunIdentity = std::vector<IdentityPart>;

/// Tells builds of the program apart.
const std::string& build_identity();

/// Names of parts: a run that has the second is told apart without the first.
inline constexpr const char *kBatches = "number of batches", *kBatchSize = "batch size";

/// Where a checkpoint keeps a part.
std::string metadata_key(const IdentityPart& part);

/// One line for each part that is not as the checkpoint has it, with what follows from it.
/// @param middle_of_epoch  whether the checkpoint was made before the end of an epoch
/// @throws DataError where the run cannot be gone on with: another model or optimizer, or another order of samples in the middle of an epoch
std::vector<std::string> differences_from(const FileMetadata& checkpoint, const RunIdentity& now, bool middle_of_epoch);

}  // namespace gemel::train
