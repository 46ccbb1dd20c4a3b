#include "datasets/speech/fourier.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "engine/base/error.h"

namespace gemel::datasets {

Fourier::Fourier(std::size_t n) : turns_(n) {
  if (n == 0) throw UsageError("Fourier: a length of 0; accepted: 1 or more");
  for (std::size_t k = 0; k < n; ++k) {
    const double angle = -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    turns_.re[k] = static_cast<float>(std::cos(angle));
    turns_.im[k] = static_cast<float>(std::sin(angle));
  }
  for (std::size_t factor = 2; n > 1; ++factor)
    for (; n % factor == 0; n /= factor) factors_.push_back(factor);
  std::ranges::reverse(factors_);  // large ones first: the innermost loops are then long sooner
}

void Fourier::transform(ComplexArray& x, ComplexArray& scratch) const {
  const std::size_t n = size();
  std::size_t stride = 1;  // product of the factors done
  for (const std::size_t factor : factors_) {
    // y[q + stride (factor p + j)] = sum_k x[q + stride (p + rest k)] exp(-2 pi i j (p stride + k n / factor) / n)
    const std::size_t rest = n / (stride * factor);
    for (std::size_t p = 0; p < rest; ++p)
      for (std::size_t j = 0; j < factor; ++j) {
        float* re = &scratch.re[stride * (factor * p + j)];
        float* im = &scratch.im[stride * (factor * p + j)];
        std::fill_n(re, stride, 0.0f);
        std::fill_n(im, stride, 0.0f);
        for (std::size_t k = 0; k < factor; ++k) {
          const std::size_t turn = j * (p * stride + k * (n / factor)) % n;
          const float c = turns_.re[turn], s = turns_.im[turn];
          const float* a = &x.re[stride * (p + rest * k)];
          const float* b = &x.im[stride * (p + rest * k)];
          for (std::size_t q = 0; q < stride; ++q) {
            re[q] += a[q] * c - b[q] * s;
            im[q] += a[q] * s + b[q] * c;
          }
        }
      }
    std::swap(x, scratch);
    stride *= factor;
  }
}

}  // namespace gemel::datasets
