#include "frontends/cli/run/counted_step.h"

#include <algorithm>
#include <numeric>

#include "engine/device/counted_problem.h"
#include "engine/device/dispatch.h"
#include "frontends/cli/run/operator_run.h"

namespace gemel::cli {
namespace {

constexpr std::int64_t kLargeBytes = 1'000'000, kLargeFlops = 50'000'000;  // of a kernel that has to fill a device

CountedOperator counted(const OperatorCase& c, const opencl::DeviceProfile& profile) {
  const Problem p = c.problem();
  const CountedProblem found = count_problem(p, profile);
  CountedOperator out{.name = c.op->name, .problem = to_string(p), .variant = found.variant->name, .kernels = {}, .count = c.count};
  out.launches = std::ssize(found.commands);
  out.bytes = found.bytes();
  out.cached_bytes = found.cached_bytes();
  out.least_bytes = least_bytes(p);
  out.flops = c.op->cost ? c.op->cost(p).flops : 0;
  std::int64_t most_read = 0;
  for (const auto& command : found.commands) most_read = std::max(most_read, command.read_bytes + command.cached_bytes);
  for (const auto& command : found.commands) {
    out.kernels.push_back(command.name);
    const bool computes = command.read_bytes + command.cached_bytes >= most_read;  // the others prepare what it takes, or add up what it left
    const bool is_large = command.read_bytes + command.written_bytes + command.cached_bytes > kLargeBytes || (computes && out.flops > kLargeFlops);
    if (command.groups > 0 && is_large) out.fewest_groups = out.fewest_groups ? std::min(out.fewest_groups, command.groups) : command.groups;
  }
  return out;
}

template <class Of>
std::int64_t total(const std::vector<CountedOperator>& operators, Of of) {
  return std::accumulate(operators.begin(), operators.end(), std::int64_t{0},
                         [of](std::int64_t sum, const CountedOperator& o) { return sum + o.count * (o.*of); });
}

}  // namespace

bool CountedOperator::is_bound_by_flops(const Roofline& bounds) const {
  return static_cast<double>(flops) / bounds.flops > static_cast<double>(bytes) / bounds.bytes;
}

double CountedOperator::seconds(const Roofline& bounds) const {
  return static_cast<double>(count) * std::max(static_cast<double>(flops) / bounds.flops, static_cast<double>(bytes) / bounds.bytes);
}

std::int64_t CountedStep::launches() const { return total(operators, &CountedOperator::launches); }
std::int64_t CountedStep::bytes() const { return total(operators, &CountedOperator::bytes); }
std::int64_t CountedStep::cached_bytes() const { return total(operators, &CountedOperator::cached_bytes); }
std::int64_t CountedStep::least_bytes() const { return total(operators, &CountedOperator::least_bytes); }
std::int64_t CountedStep::flops() const { return total(operators, &CountedOperator::flops); }
double CountedStep::seconds(const Roofline& bounds) const {
  return std::accumulate(operators.begin(), operators.end(), 0.0, [&](double sum, const CountedOperator& o) { return sum + o.seconds(bounds); });
}

CountedStep count_step(const Program& program, const opencl::DeviceProfile& profile, const Roofline& bounds) {
  CountedStep out;
  for (const OperatorCase& c : distinct_operators(program)) out.operators.push_back(counted(c, profile));
  std::ranges::stable_sort(out.operators, std::greater(), [&](const CountedOperator& o) { return o.seconds(bounds); });
  return out;
}

}  // namespace gemel::cli
