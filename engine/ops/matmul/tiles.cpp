// GEMM by tiles of registers, for CPUs: one work-item a group. opencl/kernels/cpu/gemm.cl explains the layout.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string>

#include "engine/ops/matmul/form_parts.h"

namespace gemel::gemm {
namespace {

constexpr std::int64_t kKBlock = 384;        // of the inner axis: C is read and written again for each
constexpr std::int64_t kRowsOfMiB = 288;     // a group's block of A, 288 x 384 floats, stays in a second cache of 1 MiB
constexpr std::int64_t kFinished = 1 << 16;  // elements of C that an epilogue finds in the second cache
constexpr std::int64_t kCompactB = 1 << 16;  // elements of B that lie close enough together for the second cache
constexpr std::int64_t kCompactA = 64;       // rows of a transposed A: so few lie as close together as when packed
constexpr std::int64_t kFewTiles = 8;        // so few along the rows read B where it lies faster than it is packed (measured)

/// The most rows of a group: more of them read B less often, as far as the second cache holds them.
std::int64_t rows_of_group(const DeviceProfile& d) {
  return d.unit_cache_bytes == 0 ? kRowsOfMiB : std::clamp(kRowsOfMiB * d.unit_cache_bytes >> 20, kRowsOfMiB / 2, 2 * kRowsOfMiB);
}

/// How tiles are computed. Accumulators and a row of B fill the vector registers (32 of 16 lanes, or 16 of 8).
struct Tiling {
  std::int64_t width, rows, columns;                      // a vector; a tile
  bool packs_a, packs_b;                                  // into the group's own memory
  std::int64_t k_block, row_tiles = 1, column_tiles = 1;  // of a group
};

/// The heights that the device's registers hold. Each is a program to compile, at which emulators are slow.
std::span<const std::int64_t> heights_of(const DeviceProfile& d) {
  static constexpr std::int64_t wide[] = {14, 12, 8, 7, 4, 2, 1}, narrow[] = {6, 4, 2, 1}, emulated[] = {4, 1};
  using Heights = std::span<const std::int64_t>;
  return !d.runs_vectors() ? Heights(emulated) : d.has_wide_vectors() ? Heights(wide) : Heights(narrow);
}

/// What all tiles of a height cost, in rows: what hangs over the edge is computed in vain, and loading B costs as 1.5 rows; above 12 of
/// them hardly a register is left, which costs half a row more (measured).
double cost_of(const GemmProblem& p, std::int64_t rows) {
  return static_cast<double>(ceil_div(p.m, rows)) * (static_cast<double>(rows) + (rows > 12 ? 2 : 1.5));
}

/// The division into groups that ends first. PoCL deals neighbours along the rows, each time what is left over the units: the first
/// share is the longest, and is what is weighed here. What a group packs is of use to all its tiles, so large groups pack less.
void divide(const GemmProblem& p, const DeviceProfile& d, Tiling& t) {
  const std::int64_t rows = ceil_div(p.m, t.rows), columns = ceil_div(p.n, t.columns), units = d.compute_units;
  // For a step of k, in cycles (measured): a tile; what brings its rows, and its columns, into the group's caches.
  const std::int64_t tile = 2 * t.rows + 2, bring_rows = t.packs_a ? 20 : 5, bring_columns = p.b == Transpose::yes ? 30 : 8;
  const std::int64_t most_rows = std::max<std::int64_t>(rows_of_group(d) / t.rows, 1), stride = std::max<std::int64_t>(units / 4, 1);
  constexpr int kTried = 12;  // numbers of groups along each axis
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kTried; ++i) {
    const std::int64_t row_tiles = ceil_div(rows, std::min(ceil_div(rows, most_rows) + i * stride, rows));
    const std::int64_t finished = p.epilogue.text.empty() ? columns : std::max<std::int64_t>(kFinished / (row_tiles * t.rows * t.columns), 1);
    for (int j = 0; j < kTried; ++j) {
      const std::int64_t column_tiles = ceil_div(columns, std::min(ceil_div(columns, finished) + j * stride, columns));
      const std::int64_t row_groups = ceil_div(rows, row_tiles), groups = row_groups * ceil_div(columns, column_tiles) * p.batch;
      const std::int64_t steps = row_tiles * column_tiles * (t.k_block + t.rows * t.columns) + t.k_block * (row_tiles + 2 * column_tiles);
      if (steps * ceil_div(p.k, t.k_block) > d.longest_loop) continue;
      const std::int64_t share = ceil_div(groups, units), share_rows = share / row_groups * rows + share % row_groups * row_tiles;
      const std::int64_t cost = share_rows * (tile * column_tiles + bring_rows) + share * bring_columns * column_tiles;
      if (cost >= least) continue;
      least = cost, t.row_tiles = row_tiles, t.column_tiles = column_tiles;
    }
  }
}

Tiling tiling_for(const GemmProblem& p, const DeviceProfile& d, std::int64_t rows) {
  const std::int64_t width = d.has_wide_vectors() ? 16 : 8;
  Tiling t{.width = width, .rows = rows, .columns = 2 * width};
  // Rows that lie far apart compete for the same lines of the caches; those of a B of two slices do not. Packing pays where it serves many
  // products. To turn A costs more than to copy it.
  const bool turns_a = p.a == Transpose::no;
  t.packs_a = t.rows > 4 && p.k >= 128 && p.n >= (turns_a ? 8 : 2) * t.columns && (turns_a || p.m > kCompactA) && d.runs_vectors();
  const bool far_apart = p.n > 2 * t.columns && p.n * p.k > kCompactB;
  t.packs_b = p.b == Transpose::yes || p.n < t.columns || (far_apart && p.m > kFewTiles * t.rows && d.runs_vectors());
  t.k_block = std::max<std::int64_t>(round_up(ceil_div(p.k, std::max<std::int64_t>(ceil_div(p.k, kKBlock), 1)), t.width), t.width);
  divide(p, d, t);
  return t;
}

template <std::int64_t rows>
void launch_tiles(Device& device, const GemmProblem& p, const GemmOperands& o) {
  if (is_empty(p)) return;
  const Tiling t = tiling_for(p, device.profile(), rows);
  const bool ta = p.a == Transpose::yes, tb = p.b == Transpose::yes;
  std::string options = fmt::format("-DMR={} -DNR={} -DWIDTH={} -DK_BLOCK={}", t.rows, t.columns, t.width, kKBlock);
  if (ta) options += " -DA_TRANSPOSED";
  if (t.packs_a) options += fmt::format(" -DPACK_A={}", rows_of_group(device.profile()));
  if (t.packs_b) options += " -DPACK_B";
  if (tb) options += " -DB_TRANSPOSED";
  device.run(device.kernel("cpu/gemm.cl", "gemm_tiles", options, p.epilogue.text),
             opencl::range3({ceil_div(p.m, t.row_tiles * t.rows), ceil_div(p.n, t.column_tiles * t.columns), p.batch}, {1, 1, 1}),
             {o.a, o.b, o.c, p.m, p.n, p.k, ta ? p.m : p.k, tb ? p.k : p.n, t.row_tiles, t.column_tiles, t.k_block, p.stride_a, p.stride_b, p.stride_c,
              std::int32_t{p.adds}},
             p.epilogue.arguments);
}

template <std::int64_t rows>
const char* unless_tiles(const GemmProblem& p, const DeviceProfile& d) {
  if (const char* why = unless_float32(p)) return why;
  if (std::ranges::find(heights_of(d), rows) == heights_of(d).end()) return "no tile of the device's registers has this height";
  return rows > std::max<std::int64_t>(p.m, 1) ? "the product has fewer rows" : nullptr;
}

template <std::int64_t rows>
int rank_of_tiles(const GemmProblem& p, const DeviceProfile& d) {
  if (!has_vectors(d)) return 1;
  if (p.m == 0) return 60;
  return static_cast<int>(40 + 20 * cost_of(p, cheapest_height(p, d)) / cost_of(p, rows));
}

template <std::int64_t rows>
constexpr GemmForm tiles(const char* name) {
  return {
      .name = name,
      .doc = "tiles of so many rows by two vectors in registers",
      .target = Target::cpu,
      .needs = kOfCpus,
      .declines = unless_tiles<rows>,
      .rank = rank_of_tiles<rows>,
      .launch = launch_tiles<rows>,
  };
}

}  // namespace

std::int64_t cheapest_height(const GemmProblem& p, const DeviceProfile& d) {
  std::int64_t best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (const std::int64_t rows : heights_of(d)) {
    if (rows > p.m || cost_of(p, rows) >= least) continue;
    best = rows;
    least = cost_of(p, rows);
  }
  return best;
}

extern constinit const GemmForm kTiles14 = tiles<14>("tiles_14"), kTiles12 = tiles<12>("tiles_12"), kTiles8 = tiles<8>("tiles_8"),
                                kTiles7 = tiles<7>("tiles_7"), kTiles6 = tiles<6>("tiles_6"), kTiles4 = tiles<4>("tiles_4"), kTiles2 = tiles<2>("tiles_2"),
                                kTiles1 = tiles<1>("tiles_1");

}  // namespace gemel::gemm
