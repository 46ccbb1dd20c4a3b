// Draws a plot as SVG: lines with intervals, readable in grey and when printed.
#pragma once
#include <string>
#include <vector>

#include "frontends/study/statistics/averages.h"

namespace gemel::study {

struct Point {
  double x = 0, y = 0;
  Interval interval;
};

struct Line {
  std::string name;
  std::vector<Point> points;  // by x
  std::vector<Point> bound;   // what the points cannot pass, by x; empty: none is known
};

struct Axis {
  std::string label;
  bool is_log = false;
};

/// The lines, with a mark of its own for each and their names beside the plot; bounds are dotted. Empty where no line has a point.
std::string plot_svg(const std::vector<Line>& lines, const Axis& x, const Axis& y);

/// Text in which the characters that XML gives a meaning stand for themselves.
std::string escaped(const std::string& text);

}  // namespace gemel::study
