// Fourier: the discrete Fourier transform on the host.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace gemel::datasets {

/// Complex numbers as separate arrays of real and imaginary parts.
struct ComplexArray {
  explicit ComplexArray(std::size_t n = 0) : re(n), im(n) {}
  std::vector<float> re, im;
};

/// A transform of one length n, by the prime factors of n: n times their sum multiplications. May be used from any thread.
class Fourier {
 public:
  /// @throws UsageError for n = 0
  explicit Fourier(std::size_t n);
  std::size_t size() const { return turns_.re.size(); }
  /// Transforms in place: x[k] = sum_j x[j] exp(-2 pi i j k / n).
  /// @param scratch  array of size n
  /// Source: T. G. Stockham, High-speed convolution and correlation, 1966 (each stage stores in order), for any factors.
  void transform(ComplexArray& x, ComplexArray& scratch) const;

 private:
  std::vector<std::size_t> factors_;
  ComplexArray turns_;  // exp(-2 pi i k / n)
};

}  // namespace gemel::datasets
