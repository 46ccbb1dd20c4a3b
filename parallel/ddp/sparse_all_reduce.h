// Tables of which each rank gives some rows: the rows travel, and every rank adds up the table.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/collectives/collectives.h"

namespace gemel::parallel {

/// What a rank gives: rows, or all of the table, which lies where the sum is to be.
struct RowsGiven {
  std::vector<std::int64_t> indices = {};  // of rows; those that the table has not are left out
  std::vector<float> values = {};          // [indices, width]
  bool all = false;
};

/// As a message between ranks: the number of rows, their indices, their values.
std::vector<std::byte> packed(const RowsGiven& given);
/// @param width  of a row  @throws CommError where the bytes are none of `packed`'s
RowsGiven unpacked_rows(std::span<const std::byte> bytes, std::int64_t width);

struct HostTable {
  std::span<float> elements;  // [rows, width]
  std::int64_t rows = 0, width = 0;
};

/// The table becomes the sum over all ranks, on every rank the same bits: rows are added in the order of ranks, and of each as it gives them. Where a rank
/// gives all of its table, every one sends all of its own. In the communication thread.
/// @return [row] itself where some rank gives it, else -1  @throws CommError
std::vector<std::int64_t> sum_over_ranks(Collectives& c, const RowsGiven& mine, const HostTable& table);

/// Whether rows are less to send than the table: `rows` of all ranks together, with their indices.
bool rows_are_less(std::int64_t rows, std::int64_t table_rows, std::int64_t width);

}  // namespace gemel::parallel
