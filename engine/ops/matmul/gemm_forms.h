// Forms of GEMM: ways to compute a matrix product. Each is one record, and all stand in one list. `matmul` has a variant of each; convolutions and
// recurrent layers compute their products by them.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/op.h"
#include "opencl/gemm_problem.h"

namespace gemel {

/// One way to compute a product: a Variant's fields, of products in place of problems.
struct GemmForm {
  using Declines = const char*(const opencl::GemmProblem&, const opencl::DeviceProfile&);
  using Rank = int(const opencl::GemmProblem&, const opencl::DeviceProfile&);
  using Count = std::int64_t(const opencl::GemmProblem&, const opencl::DeviceProfile&);
  using Products = std::vector<OwnedProblem>(const opencl::GemmProblem&);

  const char* name;
  const char* doc;
  Target target = Target::any;
  Needs needs = {};
  Declines* declines;
  Count* longest_loop = [](const opencl::GemmProblem&, const opencl::DeviceProfile&) -> std::int64_t { return 0; };
  Rank* rank = [](const opencl::GemmProblem&, const opencl::DeviceProfile&) { return 0; };
  Count* workspace_bytes = [](const opencl::GemmProblem&, const opencl::DeviceProfile&) -> std::int64_t { return 0; };
  Products* products = nullptr;
  void (*launch)(opencl::Device&, const opencl::GemmProblem&, const opencl::GemmOperands&);
};

/// The list, in the order in which dispatch asks them: of equals the first wins.
std::span<const GemmForm* const> gemm_forms();
/// A variant of `matmul` for each.
std::vector<Variant> gemm_variants();

/// The product that a matmul computes.
opencl::GemmProblem gemm_of(const Problem& matmul);
/// The matmul of a product's extents and types.
OwnedProblem matmul_of(const opencl::GemmProblem& product);

/// What dispatch chooses for the matmul of these extents and types on the device, measured or ranked; the epilogue is not looked at.
const GemmForm& product_form(const opencl::GemmProblem& product, const opencl::DeviceProfile& profile);

}  // namespace gemel
