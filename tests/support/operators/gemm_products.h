// Products for tests of the forms of GEMM, and memory for their operands.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/numbers.h"
#include "engine/device/dispatch.h"
#include "engine/ops/catalog.h"
#include "engine/ops/matmul/gemm_forms.h"
#include "engine/ops/ops.h"
#include "opencl/device/device.h"
#include "tests/support/device/test_device.h"

namespace gemel::testing {

inline opencl::GemmProblem product(std::int64_t m, std::int64_t n, std::int64_t k, Transpose a = Transpose::no, Transpose b = Transpose::no) {
  return {.m = m, .n = n, .k = k, .a = a, .b = b};
}

/// All with --full, else all but two whose kernels take long to compile; some products of theirs are tested always.
inline auto all_forms() {
  return gemm_forms() | std::views::transform([](const GemmForm* form) -> const GemmForm& { return *form; }) | std::views::filter([](const GemmForm& form) {
           const std::string_view name = form.name;
           return (name != "group_tile_128x64" && name != "group_tile_128x32") || is_full_run();
         });
}
inline bool is_named(const GemmForm& form, std::string_view name) { return form.name == name; }
/// Gemel's own of float32.
inline auto own_forms() {
  return all_forms() | std::views::filter([](const GemmForm& form) { return !is_named(form, "clblast") && !is_named(form, "widened"); });
}
inline const GemmForm& form_named(std::string_view name) { return **std::ranges::find(gemm_forms(), name, &GemmForm::name); }

/// Why the form's variant of `matmul` declines, or nullptr.
inline const char* why_not(const GemmForm& form, const opencl::GemmProblem& p, const opencl::DeviceProfile& profile) {
  const OwnedProblem matmul = matmul_of(p);
  const auto variant = std::ranges::find(matmul_def().variants, std::string_view(form.name), &Variant::name);
  return declines(*variant, matmul.problem(), profile);
}

/// Each begins inside its buffer, so that offsets are tested too; but not under oclgrind, which takes what the host writes at an offset for never
/// written.
struct Operand {
  Operand(opencl::Device& device, std::int64_t floats)
      : offset(device.profile().platform == "Oclgrind" ? 0 : device.profile().base_alignment_bytes),
        buffer(device.memory().allocate(offset + 4 * floats, "operand")) {}
  Operand(opencl::Device& device, const std::vector<float>& v) : Operand(device, std::ssize(v)) { device.write(region(), std::as_bytes(std::span(v))); }
  opencl::Region region() const { return {buffer.block(), offset, buffer.bytes() - offset}; }
  std::int64_t offset;
  opencl::Buffer buffer;
};

/// From -1 to 1.
std::vector<float> drawn_floats(std::int64_t count, std::uint32_t seed);

/// Computes a product of drawn floats by `run` and compares it with the definition in double; C is not read unless it is added to, and nothing behind it
/// written.
/// @param unit  how far off a product may be, over k + 4 and the sum of magnitudes; a sum in float32, in any order, is no further off than this
/// @return the first element that is wrong, or empty
std::string check_product(opencl::Device& device, const opencl::GemmProblem& p, std::int64_t workspace_bytes,
                          const std::function<void(opencl::Device&, const opencl::GemmProblem&, const opencl::GemmOperands&)>& run, double unit = 0x1p-24);

}  // namespace gemel::testing
