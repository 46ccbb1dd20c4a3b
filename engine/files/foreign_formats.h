// Files that are given in the place of others: by their first bytes, what they are, and what helps.
#pragma once
#include <optional>
#include <string>

#include "engine/base/files/steady_file.h"

namespace gemel {

/// What a file is that was given as weights and is no safetensors file, with what is accepted: a pointer that git-lfs left, PyTorch's own formats (with the
/// line of Python that converts the file), HDF5, GGUF, an archive, a web page. Empty where its first bytes tell nothing.
std::optional<std::string> known_otherwise(const SteadyFile& file);

}  // namespace gemel
