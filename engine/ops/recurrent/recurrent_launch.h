// The variants of recurrent layers. "rows" is for CPUs: a work-item reads some sequences through all their steps, in one launch, with the weight packed for its
// tiles. "steps" is for any device: a product and a kernel for each step.
// Legend: engine/ops/recurrent/recurrent_common.h.
#pragma once
#include <vector>

#include "engine/ops/recurrent/recurrent_common.h"

namespace gemel::recurrent {

enum class Pass { forward, backward };

/// An output [N, H] that is carried from step to step, and the input with its initial value.
struct Carried {
  int output, start;
};
/// Description of a record for its variants. The kernels are those of NAME.cl: NAME_rows and NAME_step, or NAME_backward_rows and NAME_backward_step. They take
/// the record's inputs except weight and lengths, and its outputs, in order.
struct Form {
  const char* name;
  Pass pass;
  int weight;  // its input
  std::int64_t gates;
  std::vector<Carried> carried;  // the hidden state, or its gradient, first
};

std::int64_t rows_loop(const Form& form, const Problem& p, const opencl::DeviceProfile& d);
std::int64_t rows_bytes(const Form& form, const Problem& p, const opencl::DeviceProfile& d);
void launch_rows(const Form& form, Launch& l);
std::int64_t steps_bytes(const Form& form, const Problem& p, const opencl::DeviceProfile& d);
std::vector<OwnedProblem> steps_products(const Form& form, const Problem& p);
void launch_steps(const Form& form, Launch& l);

/// Returns the variants of the record that a form describes.
template <const Form& (*form)()>
std::vector<Variant> variants() {
  using opencl::DeviceProfile;
  return {{.name = "rows",
           .doc = "some sequences for each work-item, which reads them through all steps",
           .target = Target::cpu,
           .needs = {.private_blocks = true},
           .longest_loop = [](const Problem& p, const DeviceProfile& d) { return rows_loop(form(), p, d); },
           .rank = [](const Problem&, const DeviceProfile& d) { return d.runs_vectors() ? 1 : -1; },
           .workspace_bytes = [](const Problem& p, const DeviceProfile& d) { return rows_bytes(form(), p, d); },
           .launch = [](Launch& l) { launch_rows(form(), l); }},
          {.name = "steps",
           .doc = "a product and a kernel for each step",
           .workspace_bytes = [](const Problem& p, const DeviceProfile& d) { return steps_bytes(form(), p, d); },
           .products = [](const Problem& p, const DeviceProfile&) { return steps_products(form(), p); },
           .launch = [](Launch& l) { launch_steps(form(), l); }}};
}

}  // namespace gemel::recurrent
