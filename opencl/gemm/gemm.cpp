#include "opencl/gemm/gemm.h"

#include "opencl/gemm/gemm_providers.h"

namespace gemel::opencl {

std::span<const GemmForm> gemm_forms() {
  static const std::vector<GemmForm> forms = [] {
    std::vector<GemmForm> all{clblast_gemm()};
    for (const GemmForm& form : native_gemm()) all.push_back(form);
    return all;
  }();
  return forms;
}

}  // namespace gemel::opencl
