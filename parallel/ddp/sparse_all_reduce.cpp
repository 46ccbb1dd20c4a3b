#include "parallel/ddp/sparse_all_reduce.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>

#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel::parallel {
namespace {

constexpr std::int64_t kAll = -1;  // in place of the number of rows

/// @param met  [row] itself where it is given
void add(const RowsGiven& given, const HostTable& table, std::span<std::int64_t> met) {
  for (std::size_t k = 0; k < given.indices.size(); ++k) {
    const std::int64_t row = given.indices[k];
    if (row < 0 || row >= table.rows) continue;  // the lookup has told of it
    met[at(row)] = row;
    float* const to = table.elements.data() + row * table.width;
    const float* const from = given.values.data() + std::ptrdiff_t(k) * table.width;
    for (std::int64_t i = 0; i < table.width; ++i) to[i] += from[i];
  }
}

}  // namespace

std::vector<std::byte> packed(const RowsGiven& given) {
  const std::int64_t count = given.all ? kAll : std::ssize(given.indices);
  std::vector<std::byte> out;
  for (const auto part : {std::as_bytes(std::span(&count, 1)), std::as_bytes(std::span(given.indices)), std::as_bytes(std::span(given.values))})
    out.insert(out.end(), part.begin(), part.end());
  return out;
}

RowsGiven unpacked_rows(std::span<const std::byte> bytes, std::int64_t width) {
  std::int64_t count = 0;
  if (bytes.size() < sizeof(count)) throw CommError("ranks: a message of rows is shorter than their number");
  std::memcpy(&count, bytes.data(), sizeof(count));
  const auto rest = bytes.subspan(sizeof(count));
  if (count == kAll && rest.empty()) return {.all = true};
  const std::size_t row = sizeof(std::int64_t) + at(width) * sizeof(float);
  if (count < 0 || rest.size() % row != 0 || at(count) != rest.size() / row)
    throw CommError("ranks: a message of " + std::to_string(count) + " rows has " + std::to_string(rest.size()) +
                    " bytes of them; accepted: " + std::to_string(row) + " for each");
  RowsGiven out{std::vector<std::int64_t>(at(count)), std::vector<float>(at(count * width))};
  const auto indices = std::as_writable_bytes(std::span(out.indices)), values = std::as_writable_bytes(std::span(out.values));
  std::ranges::copy(rest.first(indices.size()), indices.begin());
  std::ranges::copy(rest.subspan(indices.size()), values.begin());
  return out;
}

std::vector<std::int64_t> sum_over_ranks(Collectives& c, const RowsGiven& mine, const HostTable& table) {
  std::vector<std::int64_t> met(at(table.rows), -1);
  std::vector<RowsGiven> given;
  for (const std::vector<std::byte>& theirs : c.all_gather(packed(mine)))
    if (!theirs.empty()) given.push_back(unpacked_rows(theirs, table.width));  // one that has joined gives nothing
  const bool any_gives_all = std::ranges::any_of(given, &RowsGiven::all);
  if (!mine.all) std::ranges::fill(table.elements, 0.0f);
  if (!any_gives_all) {
    for (const RowsGiven& rows : given) add(rows, table, met);
    return met;
  }
  add(mine, table, met);
  c.all_reduce({reinterpret_cast<std::byte*>(table.elements.data()), std::ssize(table.elements), DType::float32});
  std::iota(met.begin(), met.end(), std::int64_t{0});
  return met;
}

bool rows_are_less(std::int64_t rows, std::int64_t table_rows, std::int64_t width) {
  constexpr std::int64_t element = sizeof(float), index = sizeof(std::int64_t);
  return rows * (index + element * width) < table_rows * element * width;
}

}  // namespace gemel::parallel
