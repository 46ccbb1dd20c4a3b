#include "engine/graph/capture/open_extent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel {
namespace {

/// Larger numbers are no extents: a draw's stream is a hash.
constexpr std::int64_t kLargestExtent = std::int64_t{1} << 50;

bool follows(std::int64_t n) { return n != 0 && std::abs(n) < kLargestExtent && n % kOpenExtent == 0; }

class Substitution {
 public:
  explicit Substitution(std::int64_t extent) : extent_(extent) {}

  std::int64_t operator()(std::int64_t n) const { return follows(n) ? n / kOpenExtent * extent_ : n; }
  bool operator()(bool b) const { return b; }
  std::string operator()(const std::string& text) const { return text; }
  DType operator()(DType dtype) const { return dtype; }
  Shape operator()(Shape shape) const {
    for (int i = 0; i < shape.rank(); ++i) shape[i] = (*this)(shape[i]);
    return shape;
  }
  std::vector<std::int64_t> operator()(std::vector<std::int64_t> numbers) const {
    for (std::int64_t& n : numbers) n = (*this)(n);
    return numbers;
  }
  double operator()(double r) const {
    const double inverse = 1 / r, shares = r * kOpenExtent;
    if (std::abs(inverse) >= kOpenExtent && std::abs(inverse) < kLargestExtent)
      if (const std::int64_t n = std::llround(inverse); follows(n) && 1 / static_cast<double>(n) == r) return 1 / static_cast<double>((*this)(n));
    if (std::abs(r) >= kOpenExtent && std::abs(r) < kLargestExtent && r == std::floor(r)) return static_cast<double>((*this)(static_cast<std::int64_t>(r)));
    if (r != 0 && std::abs(r) < 1 && std::abs(shares) < 4096 && std::abs(shares - std::round(shares)) < 1e-9 && std::round(shares) != 0)
      throw UsageError(fmt::format("the number {} depends on the open extent; accepted: what divides by it itself, as mean does", r));
    return r;
  }
  std::shared_ptr<const Program> operator()(const std::shared_ptr<const Program>& program) const { return std::make_shared<const Program>((*this)(*program)); }
  std::shared_ptr<State> operator()(const std::shared_ptr<State>& state) const { return state; }

  Program operator()(Program program) const {
    for (std::size_t s = 0; s < program.slots.size(); ++s) {
      auto& slot = program.slots[s];
      if (slot.external || !is_open(slot.spec)) continue;
      slot.spec = with_extent(slot.spec, extent_);
      slot.bytes = slot.spec.bytes();
    }
    uses(program, program.inputs);
    uses(program, program.outputs);
    for (auto& step : program.code) try {
        uses(program, step.inputs);
        uses(program, step.outputs);
        Attributes attributes;
        for (const auto& [name, item] : step.attributes.entries())
          attributes.set(name, std::visit([this](const auto& v) -> Attributes::Item { return (*this)(v); }, item));
        step.attributes = std::move(attributes);
      } catch (const UsageError& e) {
        throw UsageError(fmt::format("{}: {}", step.op->name, e.what()));
      }
    return program;
  }

 private:
  void uses(const Program& program, std::vector<Program::Use>& list) const {
    for (auto& u : list) {
      if (program.slots[at(u.slot)].external && is_open(u.spec))
        throw UsageError(fmt::format("a constant {} was made for the open extent; accepted: what is computed in the graph", to_string(u.spec)));
      u.spec = with_extent(u.spec, extent_);
      u.offset = (*this)(u.offset);
    }
  }

  std::int64_t extent_;
};

}  // namespace

bool is_open(const Spec& spec) { return std::ranges::any_of(spec.shape, follows); }

bool is_open(const Program& program) {
  const auto open = [](const Program::Use& u) { return is_open(u.spec); };
  return std::ranges::any_of(program.inputs, open) ||
         std::ranges::any_of(program.code, [&](const auto& step) { return std::ranges::any_of(step.inputs, open) || std::ranges::any_of(step.outputs, open); });
}

std::optional<std::int64_t> extent_between(const Spec& open, const Spec& given) {
  std::optional<std::int64_t> found;
  if (open.dtype != given.dtype || open.shape.rank() != given.shape.rank()) return found;
  for (int i = 0; i < open.shape.rank() && !found; ++i)
    if (follows(open.shape[i]) && given.shape[i] % (open.shape[i] / kOpenExtent) == 0) found = given.shape[i] / (open.shape[i] / kOpenExtent);
  if (found && with_extent(open, *found) != given) found.reset();
  return found;
}

Spec with_extent(Spec spec, std::int64_t extent) {
  spec.shape = Substitution(extent)(spec.shape);
  return spec;
}

Program with_extent(const Program& program, std::int64_t extent) {
  Program out = Substitution(extent)(program);
  try {
    verify(out, fmt::format("giving the open extent as {}", extent));
  } catch (const InternalError& e) {
    throw UsageError(fmt::format("graph: a shape does not follow the open extent ({})", e.what()));
  }
  return out;
}

}  // namespace gemel
