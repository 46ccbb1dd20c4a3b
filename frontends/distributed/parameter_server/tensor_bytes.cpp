#include "frontends/distributed/parameter_server/tensor_bytes.h"

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "parallel/parameter_server/server_messages.h"

namespace gemel::distributed {

using parallel::set_value;
using parallel::value_at;

namespace {

/// element(i) of each tensor's elements, by type: float32 or int64, which is what buffers are.
template <class Float, class Integer>
void each_element(const Values& values, const Float& as_float, const Integer& as_integer) {
  std::size_t place = 0;
  for (const Value& v : values) {
    const bool is_float = v.dtype() == DType::float32;
    if (!is_float && v.dtype() != DType::int64) throw UsageError("parameter server: a buffer is " + to_string(v.spec()) + "; accepted: float32, int64");
    for (std::int64_t i = 0; i < v.elements(); ++i, place += size_of(v.dtype())) is_float ? as_float(place) : as_integer(place);
  }
}

}  // namespace

std::int64_t TensorBytes::bytes() const {
  std::int64_t sum = 0;
  for (const Value& v : values_) sum += v.spec().bytes();
  return sum;
}

std::vector<std::byte> TensorBytes::read() const {
  std::vector<std::byte> out;
  for (const Value& v : values_) {
    const std::vector<std::byte> one = read_bytes(v);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

void TensorBytes::write(std::span<const std::byte> from) const {
  for (const Value& v : values_) {
    gemel::write(v, from.first(at(v.spec().bytes())));
    from = from.subspan(at(v.spec().bytes()));
  }
}

std::vector<std::byte> TensorBytes::mean(std::span<const std::span<const std::byte>> of_workers, std::span<const double> weights) const {
  std::vector<std::byte> out(of_workers[0].begin(), of_workers[0].end());
  each_element(
      values_,
      [&](std::size_t place) {
        double sum = 0;
        for (std::size_t w = 0; w < of_workers.size(); ++w) sum += weights[w] * double{value_at<float>(of_workers[w], place)};
        set_value(out, place, static_cast<float>(sum));
      },
      [](std::size_t) {});
  return out;
}

void TensorBytes::add_change(std::span<std::byte> now, std::span<const std::byte> before, std::span<const std::byte> after) const {
  each_element(
      values_,
      [&](std::size_t place) {
        const double change = double{value_at<float>(after, place)} - double{value_at<float>(before, place)};
        set_value(now, place, static_cast<float>(double{value_at<float>(now, place)} + change));
      },
      [&](std::size_t place) {
        set_value(now, place, value_at<std::int64_t>(now, place) + value_at<std::int64_t>(after, place) - value_at<std::int64_t>(before, place));
      });
}

}  // namespace gemel::distributed
