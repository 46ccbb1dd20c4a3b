// Table: numbers of a run by step, epoch or time, in columns; and curves, what is drawn of a column.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gemel::monitor {

/// Rows by ascending x. Where an x stands twice, the last row counts.
class Table {
 public:
  /// Most columns; further names are passed over, so that no file takes memory without bound.
  static constexpr std::size_t kMostColumns = 64;

  struct Column {
    std::string name;
    std::vector<float> values;  // one a row; NaN: none was written
  };

  /// Appends a row, in which every column has no value yet. Rows may come in any order: `settle` puts them right.
  void add_row(double x);
  /// Sets a value of the row added last. Names usually come in the columns' order, which makes it quick.
  void set(std::string_view name, double value);
  /// Sorts, and drops rows whose x stands again later on.
  void settle();
  /// Takes rows over that are in order. @param columns  each as long as xs
  void restore(std::vector<double> xs, std::vector<Column> columns);

  std::span<const double> xs() const { return xs_; }
  const std::vector<Column>& columns() const { return columns_; }

 private:
  std::vector<double> xs_;
  std::vector<Column> columns_;
  std::size_t next_ = 0;  // the column that is likely set next
  bool is_settled_ = true;
};

/// Points of a curve stand for cells of equal width, at multiples of it, so that curves of several runs share their x.
struct Curve {
  /// What the values with x in one cell come to.
  struct Cell {
    double x = 0;  // middle of the cell; of a cell that holds one step, this step
    float mean = 0, low = 0, high = 0;
  };
  double width = 0;  // of a cell: a power of two
  std::vector<Cell> cells;
};

/// Which part of a curve, how fine.
struct Detail {
  double from = 0, to = 0;
  double width = 0;         // at least; 0: as fine as may be
  bool is_counted = true;   // x are whole numbers, such as steps: no cell is narrower than 1
  std::size_t most = 2000;  // cells
};

/// The least power of two at which from..to has at most `most` cells, and no less than asked for. @throws DataError where from..to is no range
double cell_width(const Detail& detail);
/// Mean, minimum and maximum of each cell that has a value. @param x  ascending @param y  one for each x; NaN: none
Curve curve_of(std::span<const double> x, std::span<const float> y, const Detail& detail);

}  // namespace gemel::monitor
