// Chebyshev polynomials: a family of operators that `tests/insertions/run` adds to a copy of the sources.
#include <array>
#include <span>

#include "engine/ops/catalog.h"
#include "engine/ops/elementwise/elementwise_record.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {
namespace {

const OpDef& chebyshev_t2_def() {
  static const OpDef def = unary_record<"chebyshev_t2">({.doc = "The Chebyshev polynomial of degree 2, 2 x^2 - 1.",
                                                         .body = "2 * x0 * x0 - 1",
                                                         .reference = of_reals<[](double x) { return 2 * x * x - 1; }>,
                                                         .gradient = [](const Backward& b) -> Values { return {b.gradient(0) * (b.input(0) * 4.0)}; },
                                                         .reads = {inputs(0)}});
  return def;
}

}  // namespace

std::span<const OpDef* const> polynomial_operators() {
  static const std::array records{&chebyshev_t2_def()};
  return records;
}

}  // namespace gemel::inline ops
