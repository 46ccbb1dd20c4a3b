// The numbers in a checkpoint's metadata.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/files/safetensors.h"
#include "frontends/train/tasks/task.h"

namespace gemel::train {

struct CheckpointNumbers {
  std::int64_t run = 1;                         // a count of the runs that wrote into the folder: those of a later run are newer, whatever their step
  std::int64_t step = 0, epoch = 0, batch = 0;  // as in RunState
  Sums sums = {};
  std::int64_t optimizer_steps = 0;
  std::vector<std::int64_t> parameter_steps = {};  // of each; none: all are the optimizer's
};

/// As text that comes back to the bit.
FileMetadata metadata_of(const CheckpointNumbers& numbers);
/// @throws DataError where one is missing, is no number or is out of its range
CheckpointNumbers numbers_in(const SafetensorsHeader& file);

}  // namespace gemel::train
