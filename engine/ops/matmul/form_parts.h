// Private to the forms of GEMM: their records, and what Gemel's own share.
#pragma once
#include <algorithm>
#include <cstdint>

#include "engine/base/numbers.h"
#include "engine/ops/matmul/gemm_forms.h"

namespace gemel::gemm {

using opencl::Device;
using opencl::DeviceProfile;
using opencl::GemmOperands;
using opencl::GemmProblem;

extern const GemmForm kClblast, kTiles14, kTiles12, kTiles8, kTiles7, kTiles6, kTiles4, kTiles2, kTiles1, kDots, kFewRows, kParts, kColumns, kWidened;

inline constexpr std::int64_t kSecondCache = 1 << 18;  // elements of B that the second cache holds; beyond it few rows wait for memory
/// Of forms for CPUs: their tiles and sums stay in a work-item's registers and caches.
inline constexpr Needs kOfCpus{.private_blocks = true};

inline bool is_empty(const GemmProblem& p) { return p.m == 0 || p.n == 0 || p.batch == 0; }
/// Whether work-items compute in vectors that are wide enough for the forms for CPUs.
inline bool has_vectors(const DeviceProfile& d) { return !d.runs_items_in_lanes() && d.simd_width >= 8; }
/// Whether the last cache holds B beside what else is at work in it.
inline bool holds_b(const DeviceProfile& d, const GemmProblem& p) { return 2 * 4 * p.n * p.k <= d.cache_bytes; }
/// How many matrices lie at a stride.
inline std::int64_t matrices(const GemmProblem& p, std::int64_t stride) { return stride ? p.batch : 1; }

/// Why a form that computes in float32 declines; nullptr: it does not.
inline const char* unless_float32(const GemmProblem& p) { return p.types == opencl::GemmTypes{} ? nullptr : "its elements are not float32"; }

/// The height of tiles that costs least, and never more rows than the matrix has.
std::int64_t cheapest_height(const GemmProblem& p, const DeviceProfile& d);

}  // namespace gemel::gemm
