// Gemel's own GEMM. On CPUs: tiles of registers, one work-item a group (kernels/gemm.cl explains the layout); where
// lanes are work-items, one item a column.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/span.h"
#include "opencl/gemm_providers.h"

namespace gemel::opencl {
namespace {

constexpr std::int64_t kKBlock = 256;     // of the inner axis: a slice of B, 256 x 32 floats, stays in the first cache
constexpr std::int64_t kRowTiles = 8;     // of a group: its slice of A, 96 x 256 floats, stays in the second
constexpr std::int64_t kColumnTiles = 16; // of a group: A is read once for so many
constexpr std::int64_t kRowsInPlace = 128; // fewer rows than this do not pay for packing B
constexpr std::int64_t kEmulatedLoop = 1 << 14; // llvmpipe cuts a work-item off after 65 535 iterations of all its loops

/// The register tile: accumulators and a row of B fill the vector registers (32 of 16 lanes, or 16 of 8). Fewer rows
/// where that computes less in vain; never more rows than the matrix has.
struct Tile {
  std::int64_t rows, columns;
};
Tile tile_for(const GemmProblem& p, const DeviceProfile& d) {
  const bool wide = d.simd_width >= 16;
  static constexpr std::int64_t wide_rows[] = {12, 8, 4, 2, 1}, narrow_rows[] = {6, 4, 2, 1};
  Tile best{1, wide ? 32 : 16};
  double least = std::numeric_limits<double>::infinity();
  for (const std::int64_t rows : wide ? std::span<const std::int64_t>(wide_rows) : std::span<const std::int64_t>(narrow_rows)) {
    const double cost = static_cast<double>(ceil_div(p.m, rows)) * (static_cast<double>(rows) + 1.5);  // loading B costs as 1.5 rows
    if (rows > p.m || cost >= least) continue;
    best.rows = rows;
    least = cost;
  }
  return best;
}

/// Dot products spare the packing of B, which pays for few rows; for more of them where B is larger than the caches.
bool dots_fit(const GemmProblem& p) {
  constexpr std::int64_t kRows = 32, kRowsOfLargeB = 64, kLargeB = 1 << 21, kShortestSum = 256;
  return p.b == Transposed::yes && p.a == Transposed::no && p.k >= kShortestSum && p.m <= (p.n * p.k >= kLargeB ? kRowsOfLargeB : kRows);
}

bool packs(const GemmProblem& p, const Tile& tile) { return p.b == Transposed::yes || p.n < tile.columns || p.m >= kRowsInPlace; }

std::int64_t packed_bytes(const GemmProblem& p, const Tile& tile) {
  return 4 * (p.stride_b ? p.batch : 1) * round_up(p.n, tile.columns) * p.k;
}

/// Enough groups for every unit; beyond that as many tiles in each as its caches take.
void divide(const GemmProblem& p, const Tile& tile, const DeviceProfile& d, std::int64_t& row_tiles, std::int64_t& column_tiles) {
  const std::int64_t rows = ceil_div(p.m, tile.rows), columns = ceil_div(p.n, tile.columns), units = d.compute_units;
  const std::int64_t wanted = units > 1 ? 4 * units : 1, steps = p.k + tile.rows * tile.columns;
  row_tiles = std::min(rows, kRowTiles);
  column_tiles = std::min(columns, kColumnTiles);
  const auto too_few = [&] { return ceil_div(rows, row_tiles) * ceil_div(columns, column_tiles) * p.batch < wanted; };
  const auto too_long = [&] { return d.is_emulator && row_tiles * column_tiles * steps > kEmulatedLoop; };
  while ((too_few() || too_long()) && row_tiles * column_tiles > 1)
    (column_tiles >= row_tiles ? column_tiles : row_tiles) = ceil_div(std::max(column_tiles, row_tiles), 2);
}

void run_tiles(Device& device, const GemmProblem& p, const Region& a, const Region& b, const Region& c, const Region& workspace) {
  const Tile tile = tile_for(p, device.profile());
  const bool ta = p.a == Transposed::yes, tb = p.b == Transposed::yes, packed = packs(p, tile);
  const std::string options = fmt::format("-DMR={} -DNR={} -DK_BLOCK={}{}", tile.rows, tile.columns, kKBlock, ta ? " -DA_TRANSPOSED" : "");
  const std::int64_t panels = ceil_div(p.n, tile.columns), panel = packed ? p.k * tile.columns : tile.columns;
  if (packed)
    device.run(device.kernel("gemm_pack.cl", tb ? "pack_transposed" : "pack_rows",
                             fmt::format("-DNR={} -DK_BLOCK={}", tile.columns, kKBlock)),
               range3({panels, ceil_div(p.k, kKBlock), p.stride_b ? p.batch : 1}, {1, 1, 1}), {b, workspace, p.n, p.k, p.stride_b});
  std::int64_t row_tiles = 1, column_tiles = 1;
  divide(p, tile, device.profile(), row_tiles, column_tiles);
  const std::int64_t stride_b = packed && p.stride_b ? panels * panel : p.stride_b;
  device.run(device.kernel("gemm.cl", "gemm_tiles", options, p.epilogue.text),
             range3({ceil_div(p.m, row_tiles * tile.rows), ceil_div(p.n, column_tiles * tile.columns), p.batch}, {1, 1, 1}),
             {a, packed ? workspace : b, c, p.m, p.n, p.k, ta ? p.m : p.k, panel, packed ? tile.columns : p.n, row_tiles, column_tiles,
              p.stride_a, stride_b, p.stride_c, p.alpha, p.beta},
             p.epilogue.arguments);
}

void run_dots(Device& device, const GemmProblem& p, const Region& a, const Region& b, const Region& c) {
  device.run(device.kernel("gemm_plain.cl", "gemm_dots", "", p.epilogue.text),
             range3({ceil_div(p.m, 4), ceil_div(p.n, 4), p.batch}, {1, 1, 1}),
             {a, b, c, p.m, p.n, p.k, p.stride_a, p.stride_b, p.stride_c, p.alpha, p.beta}, p.epilogue.arguments);
}

void run_columns(Device& device, const GemmProblem& p, const Region& a, const Region& b, const Region& c) {
  constexpr std::int64_t kGroup = 32;
  const bool ta = p.a == Transposed::yes, tb = p.b == Transposed::yes;
  const std::int64_t one = 1;
  device.run(device.kernel("gemm_plain.cl", "gemm_columns", "", p.epilogue.text),
             range3({round_up(p.n, kGroup), ceil_div(p.m, 8), p.batch}, {kGroup, 1, 1}),
             {a, b, c, p.m, p.n, p.k, ta ? one : p.k, ta ? p.m : one, tb ? p.k : one, tb ? one : p.n, p.stride_a, p.stride_b, p.stride_c,
              p.alpha, p.beta},
             p.epilogue.arguments);
}

const char* declines(const GemmProblem&, const DeviceProfile&) { return nullptr; }

int rank(const GemmProblem&, const DeviceProfile& d) {
  if (d.gemm == GemmChoice::native) return 100;
  return d.is_cpu() ? 60 : 10;
}

std::int64_t workspace_bytes(const GemmProblem& p, const DeviceProfile& d) {
  return native_workspace_bytes(p, d, native_form(p, d));
}

void run(Device& device, const GemmProblem& p, const Region& a, const Region& b, const Region& c, const Region& workspace) {
  run_native(device, p, a, b, c, workspace, native_form(p, device.profile()));
}

}  // namespace

NativeForm native_form(const GemmProblem& p, const DeviceProfile& d) {
  if (!d.is_cpu() || d.simd_width < 8) return NativeForm::columns;
  return dots_fit(p) ? NativeForm::dots : NativeForm::tiles;
}

std::int64_t native_workspace_bytes(const GemmProblem& p, const DeviceProfile& d, NativeForm form) {
  if (form != NativeForm::tiles || p.m == 0) return 0;
  const Tile tile = tile_for(p, d);
  return packs(p, tile) ? packed_bytes(p, tile) : 0;
}

void run_native(Device& device, const GemmProblem& p, const Region& a, const Region& b, const Region& c, const Region& workspace,
                NativeForm form) {
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  if (form == NativeForm::columns) return run_columns(device, p, a, b, c);
  if (form == NativeForm::tiles) return run_tiles(device, p, a, b, c, workspace);
  if (p.a == Transposed::yes || p.b == Transposed::no) throw InternalError("gemm: the form by dot products takes A [m, k] and B [n, k]");
  run_dots(device, p, a, b, c);
}

GemmProvider native_gemm() { return {"native", declines, rank, workspace_bytes, run}; }

}  // namespace gemel::opencl
