#include "engine/ops/matmul/gemm_forms.h"

#include <algorithm>
#include <array>

#include "engine/device/dispatch.h"
#include "engine/device/launch.h"
#include "engine/ops/catalog.h"
#include "engine/ops/matmul/form_parts.h"

namespace gemel {
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

template <const GemmForm&... forms>
struct List {
  static constexpr std::array<const GemmForm*, sizeof...(forms)> kForms{&forms...};
  static std::vector<Variant> variants() { return {variant_of<forms>()...}; }
};
using Forms = List<gemm::kClblast, gemm::kTiles14, gemm::kTiles12, gemm::kTiles8, gemm::kTiles7, gemm::kTiles6, gemm::kTiles4, gemm::kTiles2, gemm::kTiles1,
                   gemm::kDots, gemm::kFewRows, gemm::kParts, gemm::kColumns, gemm::kWidened>;

}  // namespace

std::span<const GemmForm* const> gemm_forms() { return Forms::kForms; }
std::vector<Variant> gemm_variants() { return Forms::variants(); }

const GemmForm& product_form(const opencl::GemmProblem& product, const opencl::DeviceProfile& profile) {
  const char* const name = choose(matmul_of(product).problem(), profile).name;
  return **std::ranges::find(Forms::kForms, name, &GemmForm::name);  // a form and its variant have one text as their name
}

}  // namespace gemel
