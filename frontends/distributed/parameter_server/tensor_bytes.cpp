#include "frontends/distributed/parameter_server/tensor_bytes.h"

#include <cstring>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/core/session.h"

namespace gemel::distributed {
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

template <class T>
T get(std::span<const std::byte> from, std::size_t place) {
  T out;
  std::memcpy(&out, from.data() + place, sizeof out);
  return out;
}
template <class T>
void put(std::span<std::byte> to, std::size_t place, T value) {
  std::memcpy(to.data() + place, &value, sizeof value);
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
        for (std::size_t w = 0; w < of_workers.size(); ++w) sum += weights[w] * double{get<float>(of_workers[w], place)};
        put(out, place, static_cast<float>(sum));
      },
      [](std::size_t) {});
  return out;
}

void TensorBytes::add_change(std::span<std::byte> now, std::span<const std::byte> before, std::span<const std::byte> after) const {
  each_element(
      values_,
      [&](std::size_t place) {
        const double change = double{get<float>(after, place)} - double{get<float>(before, place)};
        put(now, place, static_cast<float>(double{get<float>(now, place)} + change));
      },
      [&](std::size_t place) { put(now, place, get<std::int64_t>(now, place) + get<std::int64_t>(after, place) - get<std::int64_t>(before, place)); });
}

}  // namespace gemel::distributed
