#include "engine/ops/matmul/gemm_forms.h"

#include <algorithm>

#include "engine/device/dispatch.h"
#include "engine/device/launch.h"
#include "engine/ops/catalog.h"
#include "engine/ops/matmul/form_parts.h"

/// All forms, a line each, in the order in which dispatch asks them.
#define GEMEL_GEMM_FORMS(FORM) \
  FORM(kClblast)               \
  FORM(kTiles14)               \
  FORM(kTiles12)               \
  FORM(kTiles8)                \
  FORM(kTiles7)                \
  FORM(kTiles6)                \
  FORM(kTiles4)                \
  FORM(kTiles2)                \
  FORM(kTiles1)                \
  FORM(kDots)                  \
  FORM(kFewRows)               \
  FORM(kParts)                 \
  FORM(kGroupTile128x128)      \
  FORM(kGroupTile128x64)       \
  FORM(kGroupTile64x64)        \
  FORM(kGroupTile128x32)       \
  FORM(kMatrixUnits)           \
  FORM(kColumns)               \
  FORM(kWidened)

namespace gemel {
namespace gemm {

#define GEMEL_DECLARE(form) extern const GemmForm form;
GEMEL_GEMM_FORMS(GEMEL_DECLARE)
#undef GEMEL_DECLARE

}  // namespace gemm
namespace {

template <const GemmForm& form>
void launch_form(Launch& l) {
  const auto more = l.epilogue_arguments();
  opencl::GemmProblem product = gemm_of(l.problem());
  product.epilogue.arguments = more;
  product.adds = l.begin_sum();
  form.launch(l.device(), product, {l.in(0), l.in(1), l.out(0), l.workspace()});
}

template <const GemmForm& form>
Variant variant_of() {
  using opencl::DeviceProfile;
  Variant v{
      .name = form.name,
      .doc = form.doc,
      .target = form.target,
      .needs = form.needs,
      .declines = [](const Problem& p, const DeviceProfile& d) { return form.declines(gemm_of(p), d); },
      .longest_loop = [](const Problem& p, const DeviceProfile& d) { return form.longest_loop(gemm_of(p), d); },
      .rank = [](const Problem& p, const DeviceProfile& d) { return form.rank(gemm_of(p), d); },
      .workspace_bytes = [](const Problem& p, const DeviceProfile& d) { return form.workspace_bytes(gemm_of(p), d); },
      .launch = launch_form<form>,
  };
  if (form.products) v.products = [](const Problem& p, const DeviceProfile&) { return form.products(gemm_of(p)); };
  return v;
}

}  // namespace

std::span<const GemmForm* const> gemm_forms() {
#define GEMEL_ADDRESS(form) &gemm::form,
  static constexpr const GemmForm* kForms[] = {GEMEL_GEMM_FORMS(GEMEL_ADDRESS)};
#undef GEMEL_ADDRESS
  return kForms;
}

std::vector<Variant> gemm_variants() {
#define GEMEL_VARIANT(form) variant_of<gemm::form>(),
  return {GEMEL_GEMM_FORMS(GEMEL_VARIANT)};
#undef GEMEL_VARIANT
}

const GemmForm& product_form(const opencl::GemmProblem& product, const opencl::DeviceProfile& profile) {
  const char* const name = choose(matmul_of(product).problem(), profile).name;
  return **std::ranges::find(gemm_forms(), name, &GemmForm::name);  // a form and its variant have one text as their name
}

}  // namespace gemel
