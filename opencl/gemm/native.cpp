// Gemel's own GEMM. On CPUs: tiles of registers, one work-item a group (opencl/kernels/cpu/gemm.cl explains the layout), or forms that
// read B once where rows are few; where lanes are work-items, one item a column.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "opencl/gemm/gemm_providers.h"

namespace gemel::opencl {
namespace {

constexpr std::int64_t kKBlock = 384;           // of the inner axis: C is read and written again for each
constexpr std::int64_t kRowsOfMiB = 288;        // a group's block of A, 288 x 384 floats, stays in a second cache of 1 MiB
constexpr std::int64_t kFinished = 1 << 16;     // elements of C that an epilogue finds in the second cache
constexpr std::int64_t kCompactB = 1 << 16;     // elements of B that lie close enough together for the second cache
constexpr std::int64_t kCompactA = 64;          // rows of a transposed A: so few lie as close together as when packed
constexpr std::int64_t kFewTiles = 8;           // so few along the rows read B where it lies faster than it is packed (measured)
constexpr std::int64_t kSecondCache = 1 << 18;  // elements of B that the second cache holds; beyond it few rows wait for memory
constexpr std::int64_t kFewRows = 8;            // B is larger than all that is computed from it: memory is the limit

bool is_empty(const GemmProblem& p) { return p.m == 0 || p.n == 0 || p.batch == 0; }

/// Whether the last cache holds B beside what else is at work in it.
bool holds_b(const DeviceProfile& d, const GemmProblem& p) { return 2 * 4 * p.n * p.k <= d.cache_bytes; }

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
  return d.is_emulator ? Heights(emulated) : d.has_wide_vectors() ? Heights(wide) : Heights(narrow);
}

/// What all tiles of a height cost, in rows: what hangs over the edge is computed in vain, and loading B costs as 1.5 rows; above 12 of
/// them hardly a register is left, which costs half a row more (measured).
double cost_of(const GemmProblem& p, std::int64_t rows) {
  return static_cast<double>(ceil_div(p.m, rows)) * (static_cast<double>(rows) + (rows > 12 ? 2 : 1.5));
}

/// The height that costs least, and never more rows than the matrix has.
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
      if (d.is_emulator && steps * ceil_div(p.k, t.k_block) > kEmulatedLoop) continue;
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
  t.packs_a = t.rows > 4 && p.k >= 128 && p.n >= (turns_a ? 8 : 2) * t.columns && (turns_a || p.m > kCompactA) && !d.is_emulator;
  const bool far_apart = p.n > 2 * t.columns && p.n * p.k > kCompactB;
  t.packs_b = p.b == Transpose::yes || p.n < t.columns || (far_apart && p.m > kFewTiles * t.rows && !d.is_emulator);
  t.k_block = std::max<std::int64_t>(round_up(ceil_div(p.k, std::max<std::int64_t>(ceil_div(p.k, kKBlock), 1)), t.width), t.width);
  divide(p, d, t);
  return t;
}

template <std::int64_t rows>
void run_tiles(Device& device, const GemmProblem& p, const GemmOperands& o) {
  if (is_empty(p)) return;
  const Tiling t = tiling_for(p, device.profile(), rows);
  const bool ta = p.a == Transpose::yes, tb = p.b == Transpose::yes;
  std::string options = fmt::format("-DMR={} -DNR={} -DWIDTH={} -DK_BLOCK={}", t.rows, t.columns, t.width, kKBlock);
  if (ta) options += " -DA_TRANSPOSED";
  if (t.packs_a) options += fmt::format(" -DPACK_A={}", rows_of_group(device.profile()));
  if (t.packs_b) options += " -DPACK_B";
  if (tb) options += " -DB_TRANSPOSED";
  device.run(device.kernel("cpu/gemm.cl", "gemm_tiles", options, p.epilogue.text),
             range3({ceil_div(p.m, t.row_tiles * t.rows), ceil_div(p.n, t.column_tiles * t.columns), p.batch}, {1, 1, 1}),
             {o.a, o.b, o.c, p.m, p.n, p.k, ta ? p.m : p.k, tb ? p.k : p.n, t.row_tiles, t.column_tiles, t.k_block, p.stride_a, p.stride_b, p.stride_c,
              std::int32_t{p.accumulate}},
             p.epilogue.arguments);
}

/// Dot products pack nothing, which pays for few rows; for more of them where B is larger than the caches.
bool dots_fit(const GemmProblem& p) {
  constexpr std::int64_t kRows = 32, kRowsOfLargeB = 64, kLargeB = 1 << 21, kShortestSum = 256;
  return p.b == Transpose::yes && p.k >= kShortestSum && p.m <= (p.n * p.k >= kLargeB ? kRowsOfLargeB : kRows);
}

/// Whether A has to be turned before; one row lies the same both ways.
bool turns(const GemmProblem& p) { return p.a == Transpose::yes && p.m > 1; }

void run_dots(Device& device, const GemmProblem& p, const GemmOperands& o) {
  if (is_empty(p)) return;
  const bool wide = device.profile().has_wide_vectors();
  const std::int64_t rows = p.m <= 2 ? 2 : 4, columns = rows == 2 ? (wide ? 8 : 6) : (wide ? 6 : 3);  // sums fill the vector registers
  const bool apart = rows == 2 && p.n * p.k > kSecondCache;
  const std::string options = fmt::format("-DWIDTH={} -DROWS={} -DCOLUMNS={}{}", wide ? 16 : 8, rows, columns, apart ? " -DAPART" : "");
  if (turns(p))
    device.run(device.kernel("cpu/gemm_dots.cl", "gemm_turn", options), range2({p.m, p.stride_a ? p.batch : 1}, {1, 1}),
               {o.a, o.workspace, p.m, p.k, p.stride_a});
  device.run(device.kernel("cpu/gemm_dots.cl", "gemm_dots", options, p.epilogue.text),
             range3({ceil_div(p.m, rows), ceil_div(p.n, columns), p.batch}, {1, 1, 1}),
             {turns(p) ? o.workspace : o.a, o.b, o.c, p.m, p.n, p.k, turns(p) && p.stride_a ? p.m * p.k : p.stride_a, p.stride_b, p.stride_c,
              std::int32_t{p.accumulate}},
             p.epilogue.arguments);
}

void run_few_rows(Device& device, const GemmProblem& p, const GemmOperands& o) {
  if (is_empty(p)) return;
  constexpr std::int64_t kLeast = 64;
  // From memory, long rows keep its pages open; from a cache, short ones keep the sums in the first.
  const std::int64_t one = 1, chunk = holds_b(device.profile(), p) ? 512 : 2048, wanted = ceil_div(p.n, device.profile().compute_units);
  const std::int64_t columns = std::clamp(round_up(ceil_div(wanted, ceil_div(wanted, chunk)), 16), kLeast, chunk);
  const bool ta = p.a == Transpose::yes;
  device.run(device.kernel("cpu/gemm_few_rows.cl", "gemm_few_rows", fmt::format("-DROWS={} -DCHUNK={}", p.m, chunk), p.epilogue.text),
             range2({ceil_div(p.n, columns), p.batch}, {1, 1}),
             {o.a, o.b, o.c, p.n, p.k, ta ? one : p.k, ta ? p.m : one, columns, p.stride_a, p.stride_b, p.stride_c, std::int32_t{p.accumulate}},
             p.epilogue.arguments);
}

/// Into how many parts k is cut, so that each core reads whole rows of B: of shares of its columns, a few kilobytes each, memory gives less. As
/// many for each unit, of few enough terms that a sum of all rounds little. 0: there is no such cut.
std::int64_t parts_of(const GemmProblem& p, const DeviceProfile& d) {
  constexpr std::int64_t kMostTerms = 256, kLeastTerms = 64;
  for (std::int64_t parts = round_up(std::max<std::int64_t>(ceil_div(p.k, kMostTerms), 1), d.compute_units); p.k >= parts * kLeastTerms;
       parts += d.compute_units)
    if (p.k % parts == 0) return parts;
  return 0;
}

/// The parts are so many products, whose sums lie in the workspace.
void run_parts(Device& device, const GemmProblem& p, const GemmOperands& o) {
  if (is_empty(p)) return;
  constexpr std::int64_t kSums = 1 << 15, kGroupOfSum = 256;  // sums of all rows at the most, which the second cache holds; columns
  const std::int64_t parts = parts_of(p, device.profile()), terms = p.k / parts, one = 1;
  std::int64_t chunk = 16;  // one of few, each of which is a program
  while (chunk < p.n && chunk < kSums / kFewRows) chunk *= 2;
  const std::int64_t columns = round_up(ceil_div(p.n, ceil_div(p.n, chunk)), 16);
  const bool ta = p.a == Transpose::yes;
  device.run(device.kernel("cpu/gemm_few_rows.cl", "gemm_few_rows", fmt::format("-DROWS={} -DCHUNK={}", p.m, chunk)),
             range2({ceil_div(p.n, columns), parts}, {1, 1}),
             {o.a, o.b, o.workspace, p.n, terms, ta ? one : p.k, ta ? p.m : one, columns, ta ? terms * p.m : terms, terms * p.n, p.m * p.n, std::int32_t{0}});
  device.run(device.kernel("cpu/gemm_few_rows.cl", "gemm_sum_parts", fmt::format("-DROWS={} -DCHUNK={}", p.m, kGroupOfSum), p.epilogue.text),
             range2({ceil_div(p.n, kGroupOfSum), p.m}, {1, 1}), {o.workspace, o.c, p.n, p.m * p.n, parts, std::int32_t{p.accumulate}}, p.epilogue.arguments);
}

void run_columns(Device& device, const GemmProblem& p, const GemmOperands& o) {
  if (is_empty(p)) return;
  constexpr std::int64_t kGroup = 32;
  const bool ta = p.a == Transpose::yes, tb = p.b == Transpose::yes;
  const std::int64_t one = 1;
  device.run(device.kernel("any/gemm_columns.cl", "gemm_columns", "", p.epilogue.text),
             range3({round_up(p.n, kGroup), std::min(ceil_div(p.m, 8), kMostGroups), std::min(p.batch, kMostGroups)}, {kGroup, 1, 1}),
             {o.a, o.b, o.c, p.m, p.n, p.k, p.batch, ta ? one : p.k, ta ? p.m : one, tb ? p.k : one, tb ? one : p.n, p.stride_a, p.stride_b, p.stride_c,
              std::int32_t{p.accumulate}},
             p.epilogue.arguments);
}

constexpr const char* kClblastAsked = "CLBlast was asked for";
bool clblast_asked(const GemmProblem& p, const DeviceProfile& d) { return d.gemm == GemmChoice::clblast && !clblast_gemm().declines(p, d); }

/// Forms whose lanes are those of a work-item's vectors.
const char* unless_vectors(const GemmProblem& p, const DeviceProfile& d) {
  return clblast_asked(p, d) ? kClblastAsked : !d.is_cpu() ? "it is for CPUs" : nullptr;
}
bool has_vectors(const DeviceProfile& d) { return d.is_cpu() && d.simd_width >= 8; }

template <std::int64_t rows>
const char* unless_tiles(const GemmProblem& p, const DeviceProfile& d) {
  if (const char* why = unless_vectors(p, d)) return why;
  if (std::ranges::find(heights_of(d), rows) == heights_of(d).end()) return "no tile of the device's registers has this height";
  return rows > std::max<std::int64_t>(p.m, 1) ? "the product has fewer rows" : nullptr;
}

template <std::int64_t rows>
int rank_of_tiles(const GemmProblem& p, const DeviceProfile& d) {
  if (!has_vectors(d)) return 1;
  if (p.m == 0) return 60;
  return static_cast<int>(40 + 20 * cost_of(p, cheapest_height(p, d)) / cost_of(p, rows));
}

const char* unless_dots(const GemmProblem& p, const DeviceProfile& d) {
  if (const char* why = unless_vectors(p, d)) return why;
  if (p.b == Transpose::no) return "B is not transposed";
  return turns(p) && d.is_emulator && p.m * p.n * p.k > kEmulatedLoop ? "its loops are too long for an emulator" : nullptr;
}
int rank_of_dots(const GemmProblem& p, const DeviceProfile& d) { return !has_vectors(d) ? 1 : dots_fit(p) ? 64 : 20; }
std::int64_t bytes_of_dots(const GemmProblem& p, const DeviceProfile&) { return turns(p) ? 4 * (p.stride_a ? p.batch : 1) * p.m * p.k : 0; }

const char* unless_few_rows(const GemmProblem& p, const DeviceProfile& d) {
  if (const char* why = unless_vectors(p, d)) return why;
  if (p.b == Transpose::yes) return "B is transposed";
  if (p.m > kFewRows) return "the product has more than 8 rows";
  return d.is_emulator && p.m * p.n * p.k > kEmulatedLoop ? "its loops are too long for an emulator" : nullptr;
}
int rank_of_few_rows(const GemmProblem& p, const DeviceProfile& d) {
  // From a cache, a whole tile of many rows is faster.
  const bool whole_tile = p.m > 4 && cheapest_height(p, d) == p.m;
  return !has_vectors(d) ? 1 : whole_tile && holds_b(d, p) ? 39 : 62;
}

const char* unless_parts(const GemmProblem& p, const DeviceProfile& d) {
  if (const char* why = unless_few_rows(p, d)) return why;
  if (p.batch != 1) return "there are several products";
  return parts_of(p, d) == 0 ? "the inner axis cannot be cut into parts" : nullptr;
}
int rank_of_parts(const GemmProblem& p, const DeviceProfile& d) {
  constexpr std::int64_t kShort = 2048;  // columns of a unit that are read well as they lie
  return !has_vectors(d) ? 1 : p.n < kShort * d.compute_units && p.n * p.k > kSecondCache ? 63 : 30;
}
std::int64_t bytes_of_parts(const GemmProblem& p, const DeviceProfile& d) { return 4 * parts_of(p, d) * p.m * p.n; }

const char* unless_columns(const GemmProblem& p, const DeviceProfile& d) { return clblast_asked(p, d) ? kClblastAsked : nullptr; }
int rank_of_columns(const GemmProblem&, const DeviceProfile& d) { return has_vectors(d) ? 0 : d.is_cpu() ? 60 : 10; }

std::int64_t no_bytes(const GemmProblem&, const DeviceProfile&) { return 0; }

template <std::int64_t rows>
GemmForm tiles(const char* name) {
  return {name, "tiles of so many rows by two vectors in registers; for CPUs", unless_tiles<rows>, rank_of_tiles<rows>, no_bytes, run_tiles<rows>};
}

}  // namespace

std::vector<GemmForm> native_gemm() {
  return {tiles<14>("tiles_14"),
          tiles<12>("tiles_12"),
          tiles<8>("tiles_8"),
          tiles<7>("tiles_7"),
          tiles<6>("tiles_6"),
          tiles<4>("tiles_4"),
          tiles<2>("tiles_2"),
          tiles<1>("tiles_1"),
          {"dots", "dot products of rows of A and of a transposed B; for CPUs", unless_dots, rank_of_dots, bytes_of_dots, run_dots},
          {"few_rows", "at most 8 rows, B read once as it lies; for CPUs", unless_few_rows, rank_of_few_rows, no_bytes, run_few_rows},
          {"parts", "at most 8 rows, B read in parts along k, a whole row at a time; for CPUs", unless_parts, rank_of_parts, bytes_of_parts, run_parts},
          {"columns", "one work-item a column", unless_columns, rank_of_columns, no_bytes, run_columns}};
}

}  // namespace gemel::opencl
