// Detection, by the first bytes, of files of other formats that are given as weights.
#pragma once
#include <optional>
#include <string>

#include "engine/base/files/steady_file.h"

namespace gemel {

/// Message that names the format of a file that is not a safetensors file, and what is accepted instead: a git-lfs pointer, PyTorch's formats (with a
/// line of Python that converts the file), HDF5, GGUF, JSON, an archive, a web page. Empty if the format is unknown.
std::optional<std::string> known_otherwise(const SteadyFile& file);

}  // namespace gemel
