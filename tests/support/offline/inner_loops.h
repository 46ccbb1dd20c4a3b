// What the inner loops of kernels compute, by the assembly for AMD's GPUs.
#pragma once
#include <map>
#include <string>
#include <string_view>

namespace gemel::testing {

/// Of each kernel's loop with the most fused multiply-adds and no loop in it: their percentage of all vector arithmetic between its label and its branch,
/// addresses included. A kernel without a loop is not there. Of two instructions in one (v_dual_...) each counts.
std::map<std::string, int> fma_percent(std::string_view assembly);

}  // namespace gemel::testing
