#include "engine/device/counted_problem.h"

#include <algorithm>
#include <utility>

#include "engine/base/numbers.h"
#include "engine/device/launch.h"

namespace gemel {
namespace {

std::int64_t cost_bytes(const Problem& p) { return p.op.cost ? p.op.cost(p).bytes : 0; }

/// Of all products of which a library computes some.
std::int64_t product_bytes(const Problem& p, const Variant& v, const opencl::DeviceProfile& profile) {
  if (!v.products) return cost_bytes(p);
  std::int64_t sum = 0;
  for (const OwnedProblem& product : v.products(p, profile)) sum += cost_bytes(product.problem());
  return sum;
}

}  // namespace

std::int64_t CountedProblem::bytes() const {
  std::int64_t sum = 0;
  for (const auto& c : commands) sum += c.read_bytes + c.written_bytes;
  return sum;
}

std::int64_t CountedProblem::cached_bytes() const {
  std::int64_t sum = 0;
  for (const auto& c : commands) sum += c.cached_bytes;
  return sum;
}

CountedProblem count_variant(const Problem& p, const Variant& v, const opencl::DeviceProfile& profile) {
  CountedProblem out{.variant = &v, .commands = {}, .programs = {}};
  std::vector<opencl::CountedOperand> operands;
  for (const Spec& s : p.inputs) operands.push_back({.bytes = s.bytes(), .is_input = true});
  const auto inputs = std::ssize(p.inputs);
  for (const Spec& s : p.outputs) operands.push_back({.bytes = s.bytes()});
  if (p.op.adds) operands[at(inputs)].lies_at = static_cast<int>(inputs) - 1;  // the sum lies there already
  operands.push_back({.bytes = v.workspace_bytes ? v.workspace_bytes(p, profile) : 0, .is_workspace = true});
  constexpr std::int64_t kErrorWord = 20;
  operands.push_back({.bytes = kErrorWord});
  opencl::CountedLaunch counted = opencl::count_launch(profile, operands, [&](opencl::Device& device, std::span<const opencl::Region> all) {
    const std::size_t n = p.inputs.size(), m = p.outputs.size();
    Launch call({device, all[n + m + 1]}, p, all.first(n), all.subspan(n, m), all[n + m]);
    v.launch(call);
  });
  out.commands = std::move(counted.commands);
  out.programs = std::move(counted.programs);
  const auto natives = std::ranges::count_if(out.commands, &opencl::CountedCommand::is_native);
  for (auto& c : out.commands)
    if (c.is_native) c.read_bytes = product_bytes(p, v, profile) / natives;
  return out;
}

CountedProblem count_problem(const Problem& p, const opencl::DeviceProfile& profile) { return count_variant(p, choose(p, profile), profile); }

std::int64_t least_bytes(const Problem& p) {
  if (p.op.elementwise || p.op.views || !p.op.cost || p.op.cost(p).flops == 0) return 0;
  std::int64_t sum = 0;
  for (const Spec& s : p.inputs) sum += s.bytes();
  for (const Spec& s : p.outputs) sum += s.bytes();
  return sum;
}

}  // namespace gemel
