// Checkpoints: all that a run needs to go on bit for bit, in one safetensors file that appears whole or not at all.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/session.h"
#include "frontends/nn/module.h"
#include "frontends/optim/optimizer.h"
#include "frontends/train/checkpoint/run_identity.h"
#include "frontends/train/ranks.h"
#include "frontends/train/tasks/task.h"

namespace gemel::train {

/// Where a run stands.
struct RunState {
  std::int64_t step = 0;              // steps done
  std::int64_t epoch = 0, batch = 0;  // the next batch to train
  Sums sums;                          // of this epoch's batches so far
  RanksState ranks;                   // of a checkpoint
};

/// Where a run puts its checkpoints. Those of other runs stay, but for one of the same step, which is written over.
struct CheckpointFolder {
  std::filesystem::path path;
  std::int64_t run = 1;                    // a count of the runs that wrote into it, this one included
  std::vector<std::filesystem::path> own;  // of this run, the first to be removed first
};
/// For a run that begins afresh, or goes on from a file of its choice.
CheckpointFolder begin_in(const std::filesystem::path& folder);
/// For a run that goes on from the folder's newest file.
CheckpointFolder go_on_in(const std::filesystem::path& folder, const std::filesystem::path& file);
/// What its lock is for.
constexpr const char* kCheckpoint = "checkpoint";
/// Makes the folder. @throws DataError where that fails, nothing can be written in it, or a living run writes into it
void prepare_checkpoints(const std::filesystem::path& folder);
/// The folder's checkpoints by run, then by step, the newest last. Both numbers stand in the files, so that copies keep their order; a file whose
/// numbers cannot be read is left out.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& folder);

/// Writes `checkpoint-STEP.safetensors` into the folder and keeps it and the one that the run wrote last before it.
/// @return its path  @throws DataError where it cannot be written  @throws Error for weights that are not finite; older checkpoints stay
std::filesystem::path save_checkpoint(CheckpointFolder& folder, const nn::Module& model, const optim::Optimizer& optimizer, const RunState& state,
                                      const RunIdentity& identity);

/// The newest checkpoint of a folder that is whole, by its checksum too, if there is one.
/// @param tell  is told of those passed over, and why
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder, const std::function<void(const std::string&)>& tell);

struct Restored {
  RunState state;
  std::vector<std::string> warnings;  // see differences_from
};
/// Gives model and optimizer the saved contents.
/// @throws DataError naming what is missing, unknown or of another shape; or what makes this another run, see differences_from
Restored load_checkpoint(const std::filesystem::path& file, nn::Module& model, optim::Optimizer& optimizer, Session& session, const RunIdentity& identity);

}  // namespace gemel::train
