#include "opencl/gemm.h"

#include <array>

#include "engine/base/error.h"
#include "opencl/gemm_providers.h"

namespace gemel::opencl {

std::span<const GemmProvider> gemm_providers() {
  static const std::array<GemmProvider, 2> providers{clblast_gemm(), native_gemm()};
  return providers;
}

const GemmProvider& choose_gemm(const GemmProblem& problem, const DeviceProfile& profile) {
  const GemmProvider* best = nullptr;
  int best_rank = 0;
  for (const GemmProvider& p : gemm_providers()) {
    if (p.declines(problem, profile)) continue;
    const int rank = p.rank(problem, profile);
    if (!best || rank > best_rank) {
      best = &p;
      best_rank = rank;
    }
  }
  if (!best) throw InternalError("gemm: every provider declines");
  return *best;
}

}  // namespace gemel::opencl
