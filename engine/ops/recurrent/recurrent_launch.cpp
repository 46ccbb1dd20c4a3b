#include "engine/ops/recurrent/recurrent_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "engine/base/numbers.h"
#include "engine/ops/matmul/gemm_forms.h"
#include "engine/ops/workspace_sections.h"

namespace gemel::recurrent {
namespace {

using opencl::DeviceProfile;
using opencl::Region;

constexpr std::int64_t kMostRows = 32;      // sequences of a work-item: their sums stay in the first cache
constexpr std::int64_t kTurnedVectors = 4;  // of a panel of the turned weight
constexpr std::int64_t kGroup = 64;         // of a kernel whose items are single numbers

bool is_backward(const Form& f) { return f.pass == Pass::backward; }

Sizes sizes_of(const Form& f, const Problem& p) { return recurrent::sizes_of({p.inputs.begin(), p.inputs.end()}, at(f.weight)); }

std::string kernel_name(const Form& f, const char* variant) { return std::string(f.name) + (is_backward(f) ? "_backward_" : "_") + variant; }

/// The record's inputs but weight and lengths, then its outputs.
Arguments tensors_of(const Form& f, const Launch& l) {
  const std::size_t weight = at(f.weight);
  const auto inputs = l.inputs().first(l.inputs().size() - 1);
  return {inputs.first(weight), inputs.subspan(weight + 1), l.outputs()};
}

void add_sizes(Arguments& arguments, const Sizes& s, const Launch& l) { arguments.add(s.sequences, s.steps, s.hidden, is_reverse(l.attributes())); }

/// Lengths that are in range, and the sequences from the longest to the shortest.
void run_order(const Launch& l, const Sizes& s, const Region& lengths, const Region& order) {
  const int given = static_cast<int>(l.problem().inputs.size()) - 1;
  const std::int64_t group = l.profile().runs_items_in_lanes() ? kGroup : 1;
  l.run("any/recurrent.cl", "recurrent_order", opencl::range1(round_up(s.sequences, group), group),
        {l.in(given), lengths, order, l.error_word(), s.sequences, s.steps}, "-DWIDTH=1");
}

// ---- rows

/// How sequences are shared among work-items, and how the weight is packed: in panels of so many columns.
struct RowsPlan {
  std::int64_t width, items, vectors, panels, panel_rows, padded;  // padded: hidden numbers, up to whole vectors
  std::int64_t row_floats;                                         // of a sequence's states
  std::string options;

  RowsPlan(const Form& f, const Problem& p, const DeviceProfile& d) {
    const Sizes s = sizes_of(f, p);
    width = d.has_wide_vectors() ? 16 : 8;
    const std::int64_t tile = d.has_wide_vectors() ? 4 : 2;  // sums of a tile fill half of the vector registers
    padded = round_up(s.hidden, width);
    vectors = is_backward(f) ? kTurnedVectors : s.gates;
    panels = is_backward(f) ? ceil_div(padded, vectors * width) : padded / width;
    panel_rows = is_backward(f) ? s.gates * padded : s.hidden;
    row_floats = (is_backward(f) ? 2 + s.gates : 3) * (padded + width);  // rows begin in different sets of the caches
    // As many for each unit, each with a tile's rows at least.
    const std::int64_t units = d.compute_units, most = std::max<std::int64_t>(ceil_div(s.sequences, tile), 1);
    items = std::clamp<std::int64_t>(round_up(ceil_div(s.sequences, kMostRows), units), 1, std::max(most, ceil_div(s.sequences, kMostRows)));
    options = fmt::format("-DWIDTH={} -DVECTORS={} -DMR={} -DROWS={}", width, vectors, tile, kMostRows);
  }
};

using RowSections = Sections<4>;  // lengths, order, panels, states
RowSections row_sections(const Form& f, const Problem& p, const DeviceProfile& d) {
  const Sizes s = sizes_of(f, p);
  const RowsPlan plan(f, p, d);
  return {{8 * s.sequences, 8 * s.sequences, 4 * plan.panels * plan.panel_rows * plan.vectors * plan.width, 4 * plan.items * kMostRows * plan.row_floats}, d};
}

}  // namespace

std::int64_t rows_loop(const Form& f, const Problem& p, const DeviceProfile& d) {
  const Sizes s = sizes_of(f, p);
  const RowsPlan plan(f, p, d);
  return s.steps * ceil_div(s.sequences, plan.items) * plan.panels * plan.panel_rows;
}

std::int64_t rows_bytes(const Form& f, const Problem& p, const DeviceProfile& d) { return row_sections(f, p, d).bytes(); }

void launch_rows(const Form& f, Launch& l) {
  const Sizes s = sizes_of(f, l.problem());
  if (s.sequences == 0) return;
  const RowsPlan plan(f, l.problem(), l.profile());
  const RowSections sections = row_sections(f, l.problem(), l.profile());
  const auto section = [&](std::size_t i) { return sections.in(l.workspace(), i); };
  run_order(l, s, section(0), section(1));
  l.run("cpu/recurrent.cl", is_backward(f) ? "recurrent_pack_turned" : "recurrent_pack", opencl::range1(plan.panels, 1),
        {l.in(f.weight), section(2), s.hidden, s.gates, plan.padded}, plan.options);
  Arguments arguments = tensors_of(f, l);
  arguments.add(section(0), section(1), section(2), section(3));
  add_sizes(arguments, s, l);
  l.run(fmt::format("cpu/{}.cl", f.name), kernel_name(f, "rows"), opencl::range1(plan.items, 1), arguments, plan.options);
}

// ---- steps

namespace {

/// The product of a step: of the hidden states and the weight, or of the gates' gradients and the turned weight, which joins what is carried.
opencl::GemmProblem product_of(const Form& f, const Sizes& s) {
  if (!is_backward(f)) return {.m = s.sequences, .n = s.width(), .k = s.hidden};
  return {.m = s.sequences, .n = s.hidden, .k = s.width(), .b = Transpose::yes, .adds = true};
}

using StepSections = Sections<4>;  // lengths, order, gates of a step, the product's own
StepSections step_sections(const Form& f, const Problem& p, const DeviceProfile& d) {
  const Sizes s = sizes_of(f, p);
  const opencl::GemmProblem product = product_of(f, s);
  return {{8 * s.sequences, 8 * s.sequences, 4 * s.sequences * s.width(), product_form(product, d).workspace_bytes(product, d)}, d};
}

}  // namespace

std::vector<OwnedProblem> steps_products(const Form& f, const Problem& p) { return {matmul_of(product_of(f, sizes_of(f, p)))}; }

std::int64_t steps_bytes(const Form& f, const Problem& p, const DeviceProfile& d) { return step_sections(f, p, d).bytes(); }

void launch_steps(const Form& f, Launch& l) {
  const Sizes s = sizes_of(f, l.problem());
  if (s.sequences == 0) return;
  const StepSections sections = step_sections(f, l.problem(), l.profile());
  const auto section = [&](std::size_t i) { return sections.in(l.workspace(), i); };
  const opencl::GemmProblem product = product_of(f, s);
  const Region hidden = l.out(f.carried[0].output), gates = section(2);
  const opencl::GemmOperands operands =
      is_backward(f) ? opencl::GemmOperands{gates, l.in(f.weight), hidden, section(3)} : opencl::GemmOperands{hidden, l.in(f.weight), gates, section(3)};
  run_order(l, s, section(0), section(1));
  for (const Carried& c : f.carried) l.device().copy(l.in(c.start), l.out(c.output));
  Arguments arguments = tensors_of(f, l);
  arguments.add(section(0), gates);
  add_sizes(arguments, s, l);
  arguments.add(std::int64_t{0});
  opencl::Kernel& kernel = l.device().kernel(fmt::format("any/{}.cl", f.name), kernel_name(f, "step"), "-DWIDTH=1");
  const GemmForm& form = product_form(product, l.profile());
  for (std::int64_t i = 0; i < s.steps; ++i) {
    arguments.back() = is_backward(f) ? s.steps - 1 - i : i;
    if (!is_backward(f)) form.launch(l.device(), product, operands);
    l.device().run(kernel, opencl::range2({round_up(s.hidden, kGroup), std::min(s.sequences, opencl::kMostGroups)}, {kGroup, 1}), arguments);
    if (is_backward(f)) form.launch(l.device(), product, operands);
  }
}

}  // namespace gemel::recurrent
