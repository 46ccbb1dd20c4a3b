// Checkpoints: the full state of a run, to resume it bit for bit, in one safetensors file that is written atomically.
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

/// Progress of a run.
struct RunState {
  std::int64_t step = 0;              // completed steps
  std::int64_t epoch = 0, batch = 0;  // next batch to train
  Sums sums;                          // of this epoch's batches so far
  RanksState ranks;                   // of a checkpoint
};

/// Folder of a run's checkpoints. Those of other runs are kept, except that one of the same step is overwritten.
struct CheckpointFolder {
  std::filesystem::path path;
  std::int64_t run = 1;                    // number of the run among those that wrote to the folder
  std::vector<std::filesystem::path> own;  // of this run, the oldest first
};
/// Returns the folder for a run that starts anew, or resumes from a file of its choice.
CheckpointFolder begin_in(const std::filesystem::path& folder);
/// Returns the folder for a run that resumes from the folder's newest file.
CheckpointFolder go_on_in(const std::filesystem::path& folder, const std::filesystem::path& file);
/// Purpose of the folder's lock.
constexpr const char* kCheckpoint = "checkpoint";
/// Makes the folder.
/// @throws DataError if that fails, the folder is not writable, or a running process writes to it
void prepare_checkpoints(const std::filesystem::path& folder);
/// Returns the folder's checkpoints by run, then by step, the newest last. Both numbers are in the files, so that copies keep their order. Files whose numbers
/// cannot be read are left out.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& folder);

/// Writes `checkpoint-STEP.safetensors`, and keeps it and the run's previous one.
/// @return its path  @throws DataError if it cannot be written  @throws Error for weights that are not finite; older checkpoints are kept
std::filesystem::path save_checkpoint(CheckpointFolder& folder, const nn::Module& model, const optim::Optimizer& optimizer, const RunState& state,
                                      const RunIdentity& identity);

/// Returns the newest checkpoint of a folder that is complete and has a valid checksum, if any.
/// @param tell  called for each one that is skipped, with the reason
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder, const std::function<void(const std::string&)>& tell);

/// Returns the metadata of the checkpoint that a run goes on from, unchecked; empty if there is none that can be read.
/// @param from  a file, or "auto": the folder's newest
FileMetadata metadata_to_resume(const std::string& from, const std::filesystem::path& folder);

struct Restored {
  RunState state;
  std::vector<std::string> warnings;  // of differences_from
};
/// Loads a checkpoint into model and optimizer.
/// @throws DataError naming what is missing, unknown or of another shape, or how this run differs: see differences_from
Restored load_checkpoint(const std::filesystem::path& file, nn::Module& model, optim::Optimizer& optimizer, Session& session, const RunIdentity& identity);

}  // namespace gemel::train
