// State dicts: a module's state with PyTorch's names, order and layouts. Layouts are converted only here.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/spec.h"
#include "engine/files/safetensors.h"
#include "frontends/nn/module.h"

namespace gemel::nn {

/// Returns names and specs in PyTorch's order: a module's parameters, then its buffers, then its children. Needs no memory.
std::vector<NamedSpec> state_specs(const Module& module);

/// materialised: only tensors that have memory, as for a stage of a pipeline.
enum class Extent { whole, materialised };

struct StateEntry {
  std::string name;
  Spec spec;  // in the layout of files
  std::vector<std::byte> bytes;
};
/// Returns the state, read from the device.
/// @throws UsageError if all is requested and not materialised
std::vector<StateEntry> state_dict(const Module& module, Extent extent = Extent::whole);

/// What to do if only the output layers differ in shape, or are missing from pretrained weights that lack them. keep_output_layers, for transfer learning,
/// leaves them as initialised.
enum class Mismatch { refuse, keep_output_layers };

/// Names of tensors that were not loaded.
struct Loaded {
  std::vector<std::string> fresh;       // the module's, left as initialised; none with Mismatch::refuse
  std::vector<std::string> left_aside;  // the file's, for which Module::name_of returns no name
  std::string prefix;                   // common prefix of the file's names that was removed, such as "module."
};

/// Loads tensors into a module, and allocates its memory if it has none. A missing `num_batches_tracked` is accepted, and so is another floating-point type,
/// which is converted. Names are converted by Module::name_of; a wrapper's prefix that all names have (frontends/nn/state/wrapper_prefixes.h) is removed if the
/// module knows the names only so. Of tied parameters one is enough. With Extent::materialised all tensors are checked, and those are loaded that the module
/// has memory for.
/// @throws DataError naming every missing, unexpected and misshapen tensor, and tensors that are tied in the model and differ; the module is then unchanged
Loaded load_state_dict(Module& module, Session& session, std::span<const NamedTensor> tensors, Mismatch mismatch = Mismatch::refuse,
                       Extent extent = Extent::whole);

/// Returns the output size of the first output layer in a weight file, its number of classes; empty if the file has none.
std::optional<std::int64_t> output_size_in(const Module& module, std::span<const NamedSpec> tensors);

/// Metadata field that checkpoints of training have and weight files do not.
inline constexpr const char* kCheckpointField = "optimizer_steps";

/// Writes the state to a safetensors file.
/// @throws DataError if it cannot be written
void save_weights(const Module& module, const std::filesystem::path& path);
void save_weights(const std::vector<StateEntry>& state, const std::filesystem::path& path);
/// Calls load_state_dict for a safetensors file, or for the shards of one (engine/files/weights.h); errors name the path. A tensor that is ignored by
/// Module::name_of may have any type that the format has.
Loaded load_weights(Module& module, Session& session, const std::filesystem::path& path, Mismatch mismatch = Mismatch::refuse, Extent extent = Extent::whole);

}  // namespace gemel::nn
