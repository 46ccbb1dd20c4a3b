// Prints tensors by the rules of PyTorch's printer: one format for all elements, lines of 80 columns, edges of large tensors.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "engine/base/numbers.h"
#include "engine/gradients/row_gradient.h"
#include "frontends/eager/tensor.h"

namespace gemel::eager {
namespace {

constexpr std::int64_t kThreshold = 1000, kEdge = 3;
constexpr int kLineWidth = 80, kIndent = 7;  // below "tensor("

/// How every element of one tensor is written.
class Format {
 public:
  Format(DType dtype, const std::vector<double>& shown) : dtype_(dtype) {
    if (is_floating(dtype)) choose(shown);
    for (double x : shown)
      if (!is_floating(dtype) || (std::isfinite(x) && x != 0)) width_ = std::max(width_, static_cast<int>(text(x).size()));
  }
  int width() const { return width_; }
  std::string operator()(double x) const { return fmt::format("{:>{}}", text(x), width_); }

 private:
  void choose(const std::vector<double>& shown) {
    double least = INFINITY, largest = 0;
    bool whole = true;
    for (double x : shown) {
      if (!std::isfinite(x) || x == 0) continue;
      least = std::min(least, std::fabs(x));
      largest = std::max(largest, std::fabs(x));
      whole = whole && x == std::ceil(x);
    }
    const bool any = largest > 0;
    scientific_ = any && (largest / least > 1000 || largest > 1e8 || (!whole && least < 1e-4));
    whole_ = whole;
  }
  std::string text(double x) const {
    if (dtype_ == DType::boolean) return x != 0 ? "True" : "False";
    if (!is_floating(dtype_)) return fmt::format("{:.0f}", x);
    if (!std::isfinite(x)) return std::isnan(x) ? "nan" : x < 0 ? "-inf" : "inf";
    if (scientific_) return fmt::format("{:.4e}", x);
    return whole_ ? fmt::format("{:.0f}.", x) : fmt::format("{:.4f}", x);
  }
  DType dtype_;
  int width_ = 1;
  bool scientific_ = false, whole_ = true;
};

class Printer {
 public:
  Printer(const Shape& shape, DType dtype, const std::vector<double>& numbers)
      : shape_(shape), strides_(row_major_strides(shape)), numbers_(numbers), summarised_(shape.elements() > kThreshold), format_(dtype, shown()) {}
  std::string text() const { return shape_.empty() ? format_(numbers_[0]) : block(0, 0, kIndent); }

 private:
  bool cut(int axis) const { return summarised_ && shape_[axis] > 2 * kEdge; }
  /// Indices along an axis that are written; -1 stands for those left out.
  std::vector<std::int64_t> indices(int axis) const {
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < shape_[axis]; ++i) {
      if (cut(axis) && i == kEdge) {
        out.push_back(-1);
        i = shape_[axis] - kEdge;
      }
      out.push_back(i);
    }
    return out;
  }
  std::vector<double> shown() const {
    std::vector<double> out;
    collect(0, 0, out);
    return out;
  }
  void collect(int axis, std::int64_t offset, std::vector<double>& out) const {
    if (axis == shape_.rank()) return out.push_back(numbers_[at(offset)]);
    for (std::int64_t i : indices(axis))
      if (i >= 0) collect(axis + 1, offset + i * strides_[axis], out);
  }
  std::string row(std::int64_t offset, int indent) const {
    const int axis = shape_.rank() - 1, per_line = std::max(1, (kLineWidth - indent) / (format_.width() + 2));
    std::string out = "[";
    int written = 0;
    for (std::int64_t i : indices(axis)) {
      if (written) out += written % per_line ? ", " : ",\n" + std::string(at(indent + 1), ' ');
      out += i < 0 ? " ..." : format_(numbers_[at(offset + i)]);
      ++written;
    }
    return out + "]";
  }
  std::string block(int axis, std::int64_t offset, int indent) const {
    if (axis == shape_.rank() - 1) return row(offset, indent);
    const std::string between = "," + std::string(at(shape_.rank() - axis - 1), '\n') + std::string(at(indent + 1), ' ');
    std::string out = "[";
    for (std::int64_t i : indices(axis)) {
      if (out.size() > 1) out += between;
      out += i < 0 ? "..." : block(axis + 1, offset + i * strides_[axis], indent + 1);
    }
    return out + "]";
  }

  const Shape shape_, strides_;
  const std::vector<double>& numbers_;
  bool summarised_;
  Format format_;
};

/// "log_softmax" is "LogSoftmaxBackward".
std::string gradient_name(const std::string& op) {
  std::string out;
  bool starts = true;
  for (char c : op) {
    if (c != '_') out += starts ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    starts = c == '_';
  }
  return out + "Backward";
}

std::vector<std::string> suffixes(const Value& x) {
  std::vector<std::string> out;
  const bool empty = x.elements() == 0;
  if (empty && x.shape().rank() != 1) {
    std::string extents;
    for (std::int64_t extent : x.shape()) extents += (extents.empty() ? "" : ", ") + std::to_string(extent);
    out.push_back("size=(" + extents + ")");
  }
  const bool usual = x.dtype() == DType::float32 || (!empty && (x.dtype() == DType::int64 || x.dtype() == DType::boolean));
  if (!usual) out.push_back("dtype=" + std::string(gemel::to_string(x.dtype())));
  if (x.node()) out.push_back(x.node()->op ? "grad_fn=<" + gradient_name(x.node()->op->name) + ">" : "requires_grad=True");
  return out;
}

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "tensor(undefined)";
  const Value& x = tensor.value();
  if (row_values(x)) return "tensor(<rows of " + gemel::to_string(x.spec()) + ">)";
  if (!x.storage()->memory) return "tensor(<symbolic " + gemel::to_string(x.spec()) + ">)";
  const std::vector<double> numbers = read(x);
  std::string out = "tensor(" + (numbers.empty() ? "[]" : Printer(x.shape(), x.dtype(), numbers).text());
  std::size_t column = out.size() - (out.rfind('\n') + 1) + 2;  // two more, as PyTorch counts
  for (const std::string& suffix : suffixes(x)) {
    const bool fits = column + suffix.size() + 2 <= at(kLineWidth);
    out += (fits ? ", " : ",\n" + std::string(at(kIndent), ' ')) + suffix;
    column = fits ? column + suffix.size() + 2 : at(kIndent) + suffix.size();
  }
  return out + ")";
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << to_string(tensor); }

}  // namespace gemel::eager
