#include "frontends/study/report/plot_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace gemel::study {
namespace {

constexpr double kWidth = 720, kHeight = 400, kLeft = 76, kTop = 16, kBottom = 52;
constexpr std::array kColours{"#1b4f8a", "#c0562f", "#3c7d3f", "#7a4f9c", "#8a6d1b", "#2f8a8a", "#9c2f5c", "#555555"};
constexpr std::array kDashes{"", "6 3", "2 3", "8 3 2 3"};
constexpr int kMarks = 4;
constexpr std::size_t kMostMarks = 12;  // of a line

/// From values to places: linear, or by the logarithm.
class Scale {
 public:
  Scale(Interval values, Interval places, bool is_log) : places_(places), is_log_(is_log) {
    low_ = of(values.low);
    high_ = of(values.high);
    if (low_ == high_) {
      low_ -= 0.5;
      high_ += 0.5;
    }
  }
  double operator()(double value) const { return std::lerp(places_.low, places_.high, (of(value) - low_) / (high_ - low_)); }
  std::vector<double> ticks() const { return is_log_ ? log_ticks() : linear_ticks(); }

 private:
  double of(double value) const { return is_log_ ? std::log10(value) : value; }
  std::vector<double> linear_ticks() const {
    const double rough = (high_ - low_) / 5, power = std::pow(10, std::floor(std::log10(rough)));
    double step = power;
    for (const double factor : {1.0, 2.0, 5.0, 10.0})
      if (factor * power <= rough) step = factor * power;
    std::vector<double> out;
    for (double t = std::ceil(low_ / step); t * step <= high_ + 1e-9 * step; ++t) out.push_back(t * step);
    return out;
  }
  std::vector<double> log_ticks() const {
    const bool is_short = high_ - low_ < 1.5;
    std::vector<double> out;
    for (double decade = std::floor(low_); decade <= std::ceil(high_); ++decade)
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double t = decade + std::log10(digit);
        if ((digit == 1 || is_short) && t >= low_ - 1e-9 && t <= high_ + 1e-9) out.push_back(digit * std::pow(10, decade));
      }
    return out;
  }

  Interval places_;
  bool is_log_;
  double low_ = 0, high_ = 1;
};

/// So that lines of one colour differ in mark and dashes.
std::size_t form_of(std::size_t line) { return line + line / kColours.size(); }

std::string mark(std::size_t line, double x, double y) {
  const char* colour = kColours[line % kColours.size()];
  switch (form_of(line) % kMarks) {
    case 0:
      return fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='4' fill='{}'/>", x, y, colour);
    case 1:
      return fmt::format("<rect x='{:.1f}' y='{:.1f}' width='7' height='7' fill='white' stroke='{}' stroke-width='2'/>", x - 3.5, y - 3.5, colour);
    case 2:
      return fmt::format("<path d='M{:.1f} {:.1f}l5 8h-10z' fill='{}'/>", x, y - 5, colour);
    default:
      return fmt::format("<path d='M{:.1f} {:.1f}l8 8m0-8l-8 8' stroke='{}' stroke-width='2'/>", x - 4, y - 4, colour);
  }
}

/// Room beside the plot for the names of lines, in a font whose letters have this mean width.
double margin_for(const std::vector<Line>& lines) {
  constexpr double kBeforeName = 28, kLetter = 6.6, kLeast = 190, kMost = 360;
  std::size_t longest = 0;
  for (const Line& line : lines) longest = std::max(longest, line.name.size());
  return std::clamp(kBeforeName + kLetter * static_cast<double>(longest) + 8, kLeast, kMost);
}

std::string shown(double value) { return fmt::format("{:.4g}", value); }

/// Ticks that are far enough apart for their texts, kept from the first on.
std::vector<double> apart(const Scale& scale, double least) {
  std::vector<double> out;
  for (const double t : scale.ticks())
    if (out.empty() || std::abs(scale(t) - scale(out.back())) >= least) out.push_back(t);
  return out;
}

bool has_place(const Axis& axis, double value) { return std::isfinite(value) && (!axis.is_log || value > 0); }

/// Lines of the points that both axes have a place for, in the units of the axes.
std::vector<Line> drawable(std::vector<Line> lines, const Axis& x, const Axis& y, std::size_t& left_out) {
  const auto has_none = [&](const Point& p) { return !has_place(x, p.x) || !has_place(y, p.y); };
  for (Line& line : lines) {
    for (std::vector<Point>* points : {&line.points, &line.bound})
      for (Point& p : *points) p = {p.x / x.unit, p.y / y.unit, {p.interval.low / y.unit, p.interval.high / y.unit}};
    left_out += std::erase_if(line.points, has_none);
    std::erase_if(line.bound, has_none);
  }
  return lines;
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  return out;
}

Drawing plot_svg(const std::vector<Line>& all, const Axis& x, const Axis& y) {
  std::size_t left_out = 0;
  const std::vector<Line> lines = drawable(all, x, y, left_out);
  Interval xs{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}, ys = xs;
  for (const Line& line : lines)
    for (const Point& p : line.points) {
      xs = {std::min(xs.low, p.x), std::max(xs.high, p.x)};
      ys = {std::min(ys.low, has_place(y, p.interval.low) ? p.interval.low : p.y), std::max(ys.high, p.interval.high)};
    }
  if (xs.low > xs.high) return {"", left_out};
  for (const Line& line : lines)
    for (const Point& p : line.bound) ys = {std::min(ys.low, p.y), std::max(ys.high, p.y)};
  if (!y.is_log) ys.low = std::min(ys.low, 0.0);  // lengths from 0 compare
  const double bottom = kHeight - kBottom, right = kWidth - margin_for(lines);
  const Scale to_x(xs, {kLeft + 12, right - 12}, x.is_log), to_y(ys, {bottom - 4, kTop + 8}, y.is_log);
  std::string out =
      fmt::format("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {} {}' font-family='sans-serif' font-size='13' role='img'>", kWidth, kHeight);
  for (const double t : apart(to_y, 18))
    out += fmt::format("<path d='M{0} {1:.1f}H{2}' stroke='#ddd'/><text x='{3}' y='{4:.1f}' text-anchor='end'>{5}</text>", kLeft, to_y(t), right, kLeft - 6,
                       to_y(t) + 4, shown(t));
  for (const double t : apart(to_x, 44))
    out += fmt::format("<path d='M{0:.1f} {1}v5' stroke='#333'/><text x='{0:.1f}' y='{2}' text-anchor='middle'>{3}</text>", to_x(t), bottom, bottom + 19,
                       shown(t));
  out += fmt::format("<path d='M{0} {1}V{2}H{3}' fill='none' stroke='#333'/>", kLeft, kTop, bottom, right);
  out += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{}</text>", (kLeft + right) / 2, kHeight - 12, escaped(x.label));
  out += fmt::format("<text transform='translate(16 {:.1f}) rotate(-90)' text-anchor='middle'>{}</text>", (kTop + bottom) / 2, escaped(y.label));
  const auto low_of = [&](const Point& p) { return has_place(y, p.interval.low) ? p.interval.low : ys.low; };
  const auto path_of = [&](const std::vector<Point>& points) {
    std::string path;
    for (const Point& p : points) path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', to_x(p.x), to_y(p.y));
    return path;
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const char* colour = kColours[i % kColours.size()];
    const bool is_joined = lines[i].is_joined;
    if (const std::string path = path_of(lines[i].points); is_joined && !path.empty())
      out += fmt::format("<path d='{}' fill='none' stroke='{}' stroke-width='1.6' stroke-dasharray='{}'/>", path, colour, kDashes[form_of(i) % kDashes.size()]);
    const std::size_t count = lines[i].points.size(), every = is_joined ? (count + kMostMarks - 1) / kMostMarks : 1;
    for (std::size_t j = 0; j < count; ++j) {
      const Point& p = lines[i].points[j];
      if ((count - 1 - j) % every != 0) continue;  // the last one has a mark
      out += fmt::format("<path d='M{:.1f} {:.1f}V{:.1f}' stroke='{}'/>", to_x(p.x), to_y(low_of(p)), to_y(p.interval.high), colour);
      out += mark(i, to_x(p.x), to_y(p.y));
    }
    // The bound of a point that stands alone is a dash, as wide as a mark and a half.
    const auto& bound = lines[i].bound;
    std::string dotted = is_joined && bound.size() > 1 ? path_of(bound) : "";
    if (dotted.empty())
      for (const Point& p : bound) dotted += fmt::format("M{:.1f} {:.1f}h18", to_x(p.x) - 9, to_y(p.y));
    if (!dotted.empty()) out += fmt::format("<path d='{}' fill='none' stroke='{}' stroke-width='2' stroke-dasharray='2 2'/>", dotted, colour);
    const double at = kTop + 14 + 20 * static_cast<double>(i);
    out += mark(i, right + 16, at) + fmt::format("<text x='{}' y='{}'>{}</text>", right + 28, at + 4, escaped(lines[i].name));
  }
  if (std::ranges::any_of(lines, [](const Line& line) { return !line.bound.empty(); })) {
    const double at = kTop + 14 + 20 * static_cast<double>(lines.size());
    out += fmt::format("<path d='M{0} {1}h16' stroke='#333' stroke-width='2' stroke-dasharray='2 2'/><text x='{2}' y='{3}'>bound of the device</text>",
                       right + 8, at, right + 28, at + 4);
  }
  return {out + "</svg>", left_out};
}

}  // namespace gemel::study
