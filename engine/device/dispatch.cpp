#include "engine/device/dispatch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "engine/base/error.h"
#include "engine/device/device_interpreter.h"
#include "opencl/device/verbose.h"
#include "opencl/program/tuning_table.h"

namespace gemel {
namespace {

/// Why it is for devices of another kind; nullptr: it is for this one.
const char* unless_for(Target target, const opencl::DeviceProfile& profile) {
  if (target == Target::any || (target == Target::cpu) == profile.is_cpu()) return nullptr;
  return target == Target::cpu ? "it is for CPUs" : "it is for GPUs";
}

const char* lacks(const Needs& needs, const opencl::DeviceProfile& profile) {
  if (profile.max_group_size < needs.group_size) return "the device's work-groups are too small";
  if (needs.private_blocks && !profile.is_cpu()) return "its blocks exceed a work-item's private memory";
  if (needs.matrix_units && profile.matrix_units == opencl::MatrixUnits::none) return "the device has no matrix units for it";
  return nullptr;
}

/// Why the user prefers another one, whatever the ranks.
const char* unless_preferred(const Variant& v, const Problem& problem, const opencl::DeviceProfile& profile) {
  const std::string &wanted = profile.preferences.wanted, &unwanted = profile.preferences.unwanted;
  if (!unwanted.empty() && v.name == unwanted) return "another was asked for";
  if (wanted.empty() || v.name == wanted) return nullptr;
  const auto it = std::ranges::find(problem.op.variants, wanted, &Variant::name);
  return it == problem.op.variants.end() || declines(*it, problem, profile) ? nullptr : "another was asked for";
}

/// Why a variant does not compute the problem; empty where it can.
std::string why_not(const Variant& v, const Problem& problem, const opencl::DeviceProfile& profile, std::span<const Refused> refused) {
  if (const char* why = declines(v, problem, profile)) return why;
  const auto it = std::ranges::find(refused, &v, &Refused::variant);
  return it == refused.end() ? "" : it->why;
}

/// Prints a choice the first time it is made.
void explain(const Problem& problem, const opencl::DeviceProfile& profile, std::span<const Refused> refused, const Variant& chosen, const char* why_chosen) {
  static std::mutex mutex;
  static std::set<std::string> seen;
  std::string text = fmt::format("dispatch: {} {} -> {} ({})", problem.op.name, to_string(problem), chosen.name, why_chosen);
  for (const Variant& v : problem.op.variants) {
    if (&v == &chosen) continue;
    const char* for_others = unless_for(v.target, profile);
    const std::string why = for_others ? for_others : why_not(v, problem, profile, refused);
    text += why.empty() ? fmt::format("; {} could too", v.name) : fmt::format("; {} declines: {}", v.name, why);
  }
  const std::lock_guard lock(mutex);
  if (seen.insert(text).second) fmt::print(stderr, "{}\n", text);
}

}  // namespace

const char* declines(const Variant& v, const Problem& problem, const opencl::DeviceProfile& profile) {
  if (const char* why = lacks(v.needs, profile)) return why;
  if (const char* why = unless_preferred(v, problem, profile)) return why;
  if (const char* why = v.declines ? v.declines(problem, profile) : nullptr) return why;
  if (profile.longest_loop == opencl::kAnyLoop || !v.longest_loop) return nullptr;
  return v.longest_loop(problem, profile) > profile.longest_loop ? "its loops are too long for an emulator" : nullptr;
}

std::string to_string(const Problem& problem) {
  std::string out;
  for (const Spec& s : problem.inputs) out += (out.empty() ? "" : ", ") + to_string(s);
  const std::string attributes = to_string(problem.attributes);
  return attributes.empty() ? out : out + " " + attributes;
}

namespace {

std::string key_in_float32(const Problem& problem) {
  if (const OpDef* product = problem.op.adds)  // as below
    return product->name + " " + to_string(Problem{*product, problem.attributes, problem.inputs.first(product->inputs.size()), problem.outputs});
  if (!problem.op.epilogue) return problem.op.name + " " + to_string(problem);
  const Epilogue& e = *problem.op.epilogue;  // computed by whichever variant computes the product
  Attributes own;
  for (const auto& [name, value] : problem.attributes.entries())
    if (std::find(e.scalars.begin(), e.scalars.end(), name) == e.scalars.end()) own.set(name, value);
  return e.product->name + " " + to_string(Problem{*e.product, own, problem.inputs.first(e.product->inputs.size()), problem.outputs});
}

}  // namespace

std::string tuning_key(const Problem& problem, const opencl::DeviceProfile& profile) {
  const bool has_precisions = std::ranges::any_of(problem.op.variants, [](const Variant& v) { return v.needs.matrix_units; });
  return key_in_float32(problem) + (has_precisions && profile.precision() != Precision::float32 ? fmt::format(" in {}", to_string(profile.precision())) : "");
}

namespace {

/// The variant that was measured to be the fastest; null where none was, or where it does not take the problem.
const Variant* tuned(const Problem& problem, const opencl::DeviceProfile& profile, std::span<const Refused> refused) {
  const auto& table = profile.preferences.tuning;
  if (!table || table->variants().empty() || problem.op.variants.size() < 2) return nullptr;
  const std::string* name = table->variant_for(tuning_key(problem, profile));
  if (!name) return nullptr;
  for (const Variant& v : problem.op.variants)
    if (v.name == *name && why_not(v, problem, profile, refused).empty()) return &v;
  return nullptr;
}

const OpDef& product_of(const OpDef& op) { return op.adds ? *op.adds : op.epilogue ? *op.epilogue->product : op; }

/// The variant that the user asked for; null where none was.
const Variant* asked_for(const Problem& problem, const opencl::DeviceProfile& profile, std::span<const Refused> refused) {
  const auto& asked = profile.preferences.variants;
  const auto it = asked.empty() ? asked.end() : asked.find(product_of(problem.op).name);
  if (it == asked.end()) return nullptr;
  const auto& [name, is_used] = it->second;
  std::vector<std::string> others;
  std::string why = "there is none of that name";
  for (const Variant& v : problem.op.variants) {
    const std::string declined = why_not(v, problem, profile, refused);
    if (v.name == name && declined.empty()) {
      is_used->store(true, std::memory_order_relaxed);
      return &v;
    }
    if (v.name == name) why = "it declines: " + declined;
    if (declined.empty()) others.emplace_back(v.name);
  }
  throw UsageError(fmt::format("{}: variant '{}' is asked for of {}; {}; accepted: {}", problem.op.name, name, to_string(problem), why,
                               others.empty() ? "none on this device" : fmt::format("{}", fmt::join(others, ", "))));
}

std::string none_takes(const Problem& problem, const opencl::DeviceProfile& profile, std::span<const Refused> refused) {
  std::string text = fmt::format("{}: no kernel for {} runs on {}", problem.op.name, to_string(problem), profile.name);
  for (const Variant& v : problem.op.variants) text += fmt::format("; {}: {}", v.name, why_not(v, problem, profile, refused));
  return text;
}

}  // namespace

const Variant& choose(const Problem& problem, const opencl::DeviceProfile& profile, std::span<const Refused> refused) {
  if (const Variant* asked = asked_for(problem, profile, refused)) {
    if (opencl::is_told("dispatch")) explain(problem, profile, refused, *asked, "asked for");
    return *asked;
  }
  if (const Variant* best = tuned(problem, profile, refused)) {
    if (opencl::is_told("dispatch")) explain(problem, profile, refused, *best, "tuned");
    return *best;
  }
  const Variant* best = nullptr;
  std::pair<bool, int> best_fit;  // whether it is for the device, rank
  for (const Variant& v : problem.op.variants) {
    if (declines(v, problem, profile) || std::ranges::count(refused, &v, &Refused::variant) > 0) continue;
    const std::pair fit{!unless_for(v.target, profile), v.rank ? v.rank(problem, profile) : 0};
    if (best && fit <= best_fit) continue;
    best = &v;
    best_fit = fit;
  }
  if (!best) throw DeviceError(none_takes(problem, profile, refused));
  if (opencl::is_told("dispatch")) explain(problem, profile, refused, *best, "ranked");
  return *best;
}

bool takes(const Problem& problem, std::string_view variant, const opencl::DeviceProfile& profile) {
  return std::ranges::any_of(problem.op.variants, [&](const Variant& v) { return v.name == variant && why_not(v, problem, profile, {}).empty(); });
}

void launch(Session& session, const Variant& variant, const Problem& problem, std::span<const opencl::Region> in, std::span<const opencl::Region> out) {
  const LaunchTarget& target = launch_target(session);
  opencl::Device& device = target.device;
  opencl::Scratch workspace;
  if (variant.workspace_bytes)
    if (const std::int64_t bytes = variant.workspace_bytes(problem, device.profile()); bytes > 0)
      workspace = device.memory().scratch(bytes, problem.op.name + " workspace");
  Launch call(target, problem, in, out, workspace.region);
  variant.launch(call);
}

}  // namespace gemel
