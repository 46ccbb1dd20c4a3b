// Draws a plot as SVG: lines with intervals, readable in grey and when printed.
#pragma once
#include <cstddef>
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
  bool is_joined = true;      // the points follow one another; else they are marks alone
};

struct Axis {
  std::string label;
  bool is_log = false;
  double unit = 1;  // of what the axis counts
};

struct Drawing {
  std::string svg;           // empty where no line has a point that can be drawn
  std::size_t left_out = 0;  // points that an axis has no place for: of 0 or less on a logarithmic one, or not finite
};
/// The lines, with a mark of its own for each and their names beside the plot; bounds are dotted. On a logarithmic axis an interval that reaches 0 goes to the
/// end of the axis.
Drawing plot_svg(const std::vector<Line>& lines, const Axis& x, const Axis& y);

/// Text in which the characters that XML gives a meaning stand for themselves.
std::string escaped(const std::string& text);

}  // namespace gemel::study
