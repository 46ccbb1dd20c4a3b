// Numbers in a checkpoint's metadata.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/files/safetensors.h"
#include "frontends/train/tasks/task.h"

namespace gemel::train {

struct CheckpointNumbers {
  std::int64_t run = 1;  // number of the run among those that wrote to the folder; a later run's checkpoints are newer, whatever their step
  std::int64_t step = 0, epoch = 0, batch = 0;  // as in RunState
  Sums sums = {};
  std::int64_t optimizer_steps = 0;
  std::vector<std::int64_t> parameter_steps = {};  // [parameter]; empty: optimizer_steps for all
};

/// Writes numbers as text that is read back exactly.
FileMetadata metadata_of(const CheckpointNumbers& numbers);
/// Reads the numbers.
/// @throws DataError if one is missing, is not a number or is out of range
CheckpointNumbers numbers_in(const SafetensorsHeader& file);

}  // namespace gemel::train
