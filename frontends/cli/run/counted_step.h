// What a step enqueues, operator by operator, counted without running it: launches, bytes, FLOPs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/graph/capture/program.h"
#include "frontends/cli/run/roofline.h"

namespace gemel::cli {

/// Equal problems of a program, each of them so. Counts are of one.
struct CountedOperator {
  std::string name, problem, variant;  // "conv2d", "float32 [32, 56, 56, 64], ...", "gemm"
  std::vector<std::string> kernels;    // in order, with what other libraries compute
  std::int64_t count = 1, launches = 0;
  std::int64_t bytes = 0, least_bytes = 0, flops = 0;
  std::int64_t cached_bytes = 0;   // of workspace that stays in the last cache, not in `bytes`
  std::int64_t fewest_groups = 0;  // of its kernels that move more than 1 MB, or compute more than 50 MFLOP; 0: none does

  /// The least time of all of them: that of the FLOPs or of the bytes that are moved, whichever is longer.
  double seconds(const Roofline& bounds) const;
  bool is_bound_by_flops(const Roofline& bounds) const;
};

struct CountedStep {
  std::vector<CountedOperator> operators;  // the one that takes longest first
  std::int64_t launches() const;
  std::int64_t bytes() const;
  std::int64_t cached_bytes() const;
  std::int64_t least_bytes() const;
  std::int64_t flops() const;
  double seconds(const Roofline& bounds) const;
};

/// @throws DeviceError if all variants of an operator decline
CountedStep count_step(const Program& program, const opencl::DeviceProfile& profile, const Roofline& bounds);

}  // namespace gemel::cli
