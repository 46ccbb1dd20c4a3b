// What computing a problem enqueues on a device, counted without running it.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/device/dispatch.h"
#include "opencl/device/counted_launch.h"

namespace gemel {

struct CountedProblem {
  const Variant* variant = nullptr;
  std::vector<opencl::CountedCommand> commands;
  std::vector<opencl::ProgramRequest> programs;  // of its kernels

  std::int64_t bytes() const;
  /// Those of the workspace that stay in the last cache, and are not in `bytes`.
  std::int64_t cached_bytes() const;
};

/// By a variant that does not decline. The bytes of a library's products are those of their matrices, each once.
CountedProblem count_variant(const Problem& problem, const Variant& variant, const opencl::DeviceProfile& profile);
/// By the variant that dispatch chooses.
/// @throws DeviceError if all variants decline
CountedProblem count_problem(const Problem& problem, const opencl::DeviceProfile& profile);

/// The bytes that no way of computing it spares: of a product, normalisation, pooling, reduction, loss or lookup each distinct input once and each output once.
/// 0 of what is computed element by element, or only moved: another operator can do it in passing.
std::int64_t least_bytes(const Problem& problem);

}  // namespace gemel
