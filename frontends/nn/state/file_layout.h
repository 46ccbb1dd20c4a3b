// Converts parameters between the layouts of memory and files: convolution [R, S, C, K] and [K, C, R, S], along time [R, C, K] and [K, C, R], linear [in, out]
// and [out, in].
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "engine/base/spec.h"
#include "frontends/nn/init.h"

namespace gemel::nn {

/// @param spec  in memory; float32 unless the layout is `same`
std::vector<std::byte> to_file_layout(const Spec& spec, FileLayout layout, std::span<const std::byte> memory);
std::vector<std::byte> from_file_layout(const Spec& spec, FileLayout layout, std::span<const std::byte> file);

}  // namespace gemel::nn
