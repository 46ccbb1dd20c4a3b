#include "engine/ops/random/draws.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/base/error.h"

namespace gemel::inline ops {

void check_state(const char* op, const Spec& state) {
  if (state.dtype != DType::int64 || state.shape.rank() != 1 || state.shape[0] < kStateNumbers)
    throw ShapeError(fmt::format("{}: state is {}; accepted: int64 [4], or [4 + samples]", op, to_string(state)));
}

DrawState state_of(const HostCall& c, int state_input) {
  const auto s = c.integer(state_input);
  return {s[0], s[1], s[2], s[3]};
}

std::int64_t place_of(const HostCall& c, int state_input, Keyed keyed, std::int64_t sample) {
  switch (keyed) {
    case Keyed::none:
      return 0;
    case Keyed::following:
      return c.integer(state_input)[2] + sample;
    case Keyed::listed:
      return c.integer(state_input)[at(kStateNumbers + sample)];
  }
  return 0;
}

void check_rate(const char* op, double rate) {
  if (!(rate >= 0 && rate <= 1)) throw ShapeError(fmt::format("{}: rate {} is out of range; accepted: 0..1", op, rate));
}

std::int32_t dropout_threshold(double rate) { return static_cast<std::int32_t>(std::llround(rate * 0x1p24)); }
double dropout_scale(double rate) { return rate < 1 ? 1 / (1 - rate) : 0; }

}  // namespace gemel::inline ops
