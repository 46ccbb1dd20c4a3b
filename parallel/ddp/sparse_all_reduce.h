// All-reduce of row gradients: each rank sends its rows, and every rank sums them into the full table.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/collectives/collectives.h"

namespace gemel::parallel {

/// The contribution of a rank: some rows, or the full table, which is then already in the table's memory.
struct RowsGiven {
  std::vector<std::int64_t> indices = {};  // row numbers; those out of range are ignored
  std::vector<float> values = {};          // [indices, width]
  bool all = false;
};

/// Encodes a contribution as a message: number of rows, indices, values.
std::vector<std::byte> packed(const RowsGiven& given);
/// Decodes a message of `packed`.
/// @param width  elements of a row  @throws CommError for any other bytes
RowsGiven unpacked_rows(std::span<const std::byte> bytes, std::int64_t width);

struct HostTable {
  std::span<float> elements;  // [rows, width]
  std::int64_t rows = 0, width = 0;
};

/// Replaces the table by its sum over all ranks, with the same bits on every rank: rows are added in the order of ranks, and each rank's in the order given. If
/// one rank contributes a full table, all do. In the communication thread.
/// @return [row] its number if some rank has it, else -1  @throws CommError
std::vector<std::int64_t> sum_over_ranks(Collectives& c, const RowsGiven& mine, const HostTable& table);

/// Tells if rows with their indices are fewer bytes to send than the table.
/// @param rows  of all ranks together
bool rows_are_less(std::int64_t rows, std::int64_t table_rows, std::int64_t width);

}  // namespace gemel::parallel
