// A module's state as files hold it: PyTorch's names, order and layouts. The only place where layouts change.
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

/// Names and specs in PyTorch's order: a module's parameters, then its buffers, then its children. Needs no memory.
std::vector<NamedSpec> state_specs(const Module& module);

/// Of a module that may have memory for a part of its tensors only, as a stage of a pipeline has.
enum class Extent { whole, materialised };

struct StateEntry {
  std::string name;
  Spec spec;  // in the files' layout
  std::vector<std::byte> bytes;
};
/// The contents, read from the device. @throws UsageError where the whole is asked for and not materialised
std::vector<StateEntry> state_dict(const Module& module, Extent extent = Extent::whole);

/// What to do where the output layers alone differ in shape, or are missing where pretrained weights come without them: transfer learning keeps them
/// as they start.
enum class Mismatch { refuse, keep_output_layers };

/// Names of what did not come from the tensors, or did not go to the module.
struct Loaded {
  std::vector<std::string> fresh;       // the module's, left as they start; none with Mismatch::refuse
  std::vector<std::string> left_aside;  // the file's, which Module::name_of gives no name
  std::string prefix;                   // of all names of the file, such as "module.", that was taken off
};

/// Gives the module the tensors' contents and, where it has none yet, memory. A missing `num_batches_tracked` is allowed, and so
/// is another floating type, which is rounded; names are as Module::name_of has them, without the wrappers (frontends/nn/state/wrapper_prefixes.h) that all
/// begin with where the module knows them only so. Of tied parameters one is enough. With Extent::materialised all tensors are compared, and those are taken
/// that the module has memory for.
/// @throws DataError naming every missing, unexpected and misshapen tensor, and such as the model has as one and that differ; the module is then unchanged
Loaded load_state_dict(Module& module, Session& session, std::span<const NamedTensor> tensors, Mismatch mismatch = Mismatch::refuse,
                       Extent extent = Extent::whole);

/// Outputs of the first output layer as the tensors have it: the classes of a weight file. Empty where it is not there.
std::optional<std::int64_t> output_size_in(const Module& module, std::span<const NamedSpec> tensors);

/// What the metadata of a checkpoint of train's has, and that of weights has not.
inline constexpr const char* kCheckpointField = "optimizer_steps";

/// Writes the state to a safetensors file. @throws DataError where it cannot be written
void save_weights(const Module& module, const std::filesystem::path& path);
void save_weights(const std::vector<StateEntry>& state, const std::filesystem::path& path);
/// load_state_dict from a safetensors file, or shards of one (engine/files/weights.h); what it throws names the path. A tensor that Module::name_of gives no
/// name may be of any type that the format knows.
Loaded load_weights(Module& module, Session& session, const std::filesystem::path& path, Mismatch mismatch = Mismatch::refuse, Extent extent = Extent::whole);

}  // namespace gemel::nn
