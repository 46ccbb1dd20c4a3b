// GEMM by CLBlast: the default on GPUs, but for those whose driver has operands begin at an offset into a buffer. On a CPU it falls back to untuned
// parameters, far below Gemel's own kernels.
#include "engine/ops/matmul/form_parts.h"
#include "opencl/clblast/clblast_gemm.h"

namespace gemel::gemm {
namespace {

constexpr std::int64_t kLargestGroup = 256;  // of the parameters that it comes with

const char* unless_clblast(const GemmProblem& p, const DeviceProfile&) {
  if (const char* why = unless_float32(p)) return why;
  if (!p.epilogue.text.empty()) return "it computes no epilogue";
  if (p.k == 0 || is_empty(p)) return "an extent is 0";
  return opencl::clblast_reaches(p) ? nullptr : "its 32-bit offsets do not reach every element";
}

int rank_of_clblast(const GemmProblem&, const DeviceProfile& d) {
  constexpr int kFirst = 60, kBehindTiles = 35, kLast = 10;
  if (!d.runs_items_in_lanes()) return kLast;
  // Its fast kernels take matrices that begin where their buffers do: all others, and their product, it copies at each call. Tiles of groups read them where
  // they lie.
  return d.overlaps_sub_buffers ? kFirst : kBehindTiles;
}

}  // namespace

// It says how much workspace it needs when it is called.
extern constinit const GemmForm kClblast{
    .name = "clblast",
    .doc = "CLBlast's GEMM",
    .needs = {.group_size = kLargestGroup},
    .declines = unless_clblast,
    .rank = rank_of_clblast,
    .launch = opencl::clblast_gemm,
};

}  // namespace gemel::gemm
