#include "frontends/monitor/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/base/error.h"

namespace gemel::monitor {
namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

/// Sum, least and greatest of values, but for those that are NaN. Four at a time: one alone would wait for the one before.
class Sum {
 public:
  void add(std::span<const float> values) {
    std::size_t i = 0;
    for (; i + kLanes <= values.size(); i += kLanes)
      for (std::size_t k = 0; k < kLanes; ++k) lanes_[k].add(values[i + k]);
    for (; i < values.size(); ++i) lanes_[0].add(values[i]);
  }
  double sum() const { return lanes_[0].sum + lanes_[1].sum + (lanes_[2].sum + lanes_[3].sum); }
  std::size_t count() const { return lanes_[0].count + lanes_[1].count + lanes_[2].count + lanes_[3].count; }
  float low() const { return std::min({lanes_[0].low, lanes_[1].low, lanes_[2].low, lanes_[3].low}); }
  float high() const { return std::max({lanes_[0].high, lanes_[1].high, lanes_[2].high, lanes_[3].high}); }

 private:
  static constexpr std::size_t kLanes = 4;
  struct Lane {
    double sum = 0;
    std::size_t count = 0;
    float low = std::numeric_limits<float>::infinity(), high = -std::numeric_limits<float>::infinity();
    void add(float value) {
      const bool is_there = value == value;
      sum += is_there ? value : 0;
      count += is_there;
      low = value < low ? value : low;  // false of NaN
      high = value > high ? value : high;
    }
  };
  std::array<Lane, kLanes> lanes_;
};

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
  if (!(d.from <= d.to) || !std::isfinite(d.from) || !std::isfinite(d.to) || d.most == 0 || !(d.width >= 0 && d.width <= 1e15) || std::abs(d.from) > 1e15 ||
      d.to > 1e15)
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
  const auto first_at = [&](std::size_t from, double least) {
    return static_cast<std::size_t>(std::lower_bound(x.begin() + from, x.end(), least) - x.begin());
  };
  const std::size_t end = first_at(0, (std::floor(detail.to / w) + 1) * w);
  for (std::size_t row = first_at(0, std::floor(detail.from / w) * w); row < end;) {
    const double cell = std::floor(x[row] / w);
    const std::size_t next = std::min(end, first_at(row, (cell + 1) * w));
    Sum sum;
    sum.add(y.subspan(row, next - row));
    row = next;
    if (sum.count() == 0) continue;
    const double middle = cell * w + (detail.is_counted ? (w - 1) / 2 : w / 2);
    out.cells.push_back({middle, static_cast<float>(sum.sum() / static_cast<double>(sum.count())), sum.low(), sum.high()});
  }
  return out;
}

}  // namespace gemel::monitor
