#include "frontends/monitor/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/base/error.h"

namespace gemel::monitor {
namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

template <class T>
void keep(std::vector<T>& values, const std::vector<std::size_t>& rows) {
  std::vector<T> kept;
  kept.reserve(rows.size());
  for (const std::size_t row : rows) kept.push_back(values[row]);
  values = std::move(kept);
}

}  // namespace

void Table::add_row(double x) {
  if (!xs_.empty() && x <= xs_.back()) is_settled_ = false;
  xs_.push_back(x);
  for (Column& column : columns_) column.values.push_back(kNone);
  next_ = 0;
}

void Table::set(std::string_view name, double value) {
  if (next_ >= columns_.size() || columns_[next_].name != name) {
    next_ = static_cast<std::size_t>(std::ranges::find(columns_, name, &Column::name) - columns_.begin());
    if (next_ == columns_.size()) {
      if (next_ == kMostColumns) return;
      columns_.push_back({std::string(name), std::vector<float>(xs_.size(), kNone)});
    }
  }
  const auto narrow = static_cast<float>(value);
  columns_[next_++].values.back() = std::isfinite(narrow) ? narrow : kNone;
}

void Table::settle() {
  if (is_settled_) return;
  is_settled_ = true;
  std::vector<std::size_t> rows(xs_.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  std::ranges::stable_sort(rows, {}, [this](std::size_t row) { return xs_[row]; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (i + 1 == rows.size() || xs_[rows[i]] != xs_[rows[i + 1]]) rows[kept++] = rows[i];
  rows.resize(kept);
  keep(xs_, rows);
  for (Column& column : columns_) keep(column.values, rows);
}

void Table::restore(std::vector<double> xs, std::vector<Column> columns) {
  xs_ = std::move(xs);
  columns_ = std::move(columns);
  is_settled_ = true;
}

double cell_width(const Detail& d) {
  if (!(d.from <= d.to) || !std::isfinite(d.from) || !std::isfinite(d.to) || d.most == 0 || !(d.width >= 0) || std::abs(d.from) > 1e15 || d.to > 1e15)
    throw DataError(fmt::format("monitor: {}..{} at {} is no part of a curve; accepted: ascending, within 1e15", d.from, d.to, d.width));
  double width = d.is_counted ? 1 : std::exp2(-10);
  const auto cells = [&] { return std::floor(d.to / width) - std::floor(d.from / width) + 1; };
  while (width < d.width || cells() > static_cast<double>(d.most)) width *= 2;
  return width;
}

Curve curve_of(std::span<const double> x, std::span<const float> y, const Detail& detail) {
  Curve out;
  out.width = cell_width(detail);
  const double w = out.width;
  // Whole cells, also at both ends: a cell's numbers are the same whatever part is looked at.
  const auto end = static_cast<std::size_t>(std::ranges::lower_bound(x, (std::floor(detail.to / w) + 1) * w) - x.begin());
  auto row = static_cast<std::size_t>(std::ranges::lower_bound(x, std::floor(detail.from / w) * w) - x.begin());
  while (row < end) {
    const double cell = std::floor(x[row] / w), next = (cell + 1) * w;
    double sum = 0;
    std::size_t count = 0;
    float low = 0, high = 0;
    for (; row < end && x[row] < next; ++row) {
      const float value = y[row];
      if (std::isnan(value)) continue;
      low = count == 0 ? value : std::min(low, value);
      high = count == 0 ? value : std::max(high, value);
      sum += value;
      ++count;
    }
    if (count == 0) continue;
    const double middle = cell * w + (detail.is_counted ? (w - 1) / 2 : w / 2);
    out.cells.push_back({middle, static_cast<float>(sum / static_cast<double>(count)), low, high});
  }
  return out;
}

}  // namespace gemel::monitor
