// CLBlast's own tuners, and the size from which on its indirect kernel is the faster one.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "opencl/clblast/clblast_calls.h"
#include "opencl/clblast/clblast_gemm.h"
#include "opencl/clblast/clblast_parameters.h"
#include "opencl/device/device.h"

namespace gemel::opencl {
namespace {

constexpr const char* kRoutine = "GemmRoutine";
constexpr const char* kLeastSide = "XGEMM_MIN_INDIRECT_SIZE";
constexpr std::int64_t kAlways = 0, kNever = 1 << 20;  // least sides: a cube of the second has 2^60 elements

/// The least time of a cube's product in seconds.
class CubeTimes {
 public:
  CubeTimes(Device& device, cl_device_id handle, std::int64_t largest) : device_(device), handle_(handle) {
    require_clblast(clblast::RetrieveParameters(handle, kRoutine, clblast::Precision::kSingle, before_), "RetrieveParameters of GemmRoutine");
    for (Buffer& matrix : matrices_) {
      matrix = device.memory().allocate(4 * largest * largest, "a matrix to measure CLBlast with");
      constexpr std::array<std::byte, 4> kZero{};
      device.fill(whole(matrix, 4 * largest * largest), kZero);
    }
  }
  ~CubeTimes() { clblast::OverrideParameters(handle_, kRoutine, clblast::Precision::kSingle, before_); }
  CubeTimes(const CubeTimes&) = delete;
  CubeTimes& operator=(const CubeTimes&) = delete;
  double operator()(std::int64_t side, std::int64_t least_side) const {
    use_clblast_parameters(handle_, kRoutine, {{kLeastSide, at(least_side)}});
    const auto region = [&](int i) { return whole(matrices_[at(i)], 4 * side * side); };
    const GemmProblem cube{.m = side, .n = side, .k = side, .stride_a = side * side, .stride_b = side * side, .stride_c = side * side};
    constexpr int kRuns = 5;  // the first of which compiles the kernels
    double least = std::numeric_limits<double>::infinity();
    for (int run = 0; run < kRuns; ++run) {
      device_.finish();
      const auto begin = std::chrono::steady_clock::now();
      clblast_gemm(device_, cube, {.a = region(0), .b = region(1), .c = region(2)});
      device_.finish();
      least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return least;
  }

 private:
  static Region whole(const Buffer& matrix, std::int64_t bytes) { return {matrix.block(), 0, bytes}; }

  Device& device_;
  cl_device_id handle_;
  ClblastTable before_;  // what was in use
  std::array<Buffer, 3> matrices_;
};

/// What loses least, over cubes up to `largest`, each against its own faster kernel.
std::int64_t least_indirect_side(const CubeTimes& time, std::int64_t largest) {
  struct Measured {
    std::int64_t side;
    double direct, indirect;  // times over the lesser
  };
  if (largest < 64) throw InternalError("cubes of 64 rows and more tell CLBlast's kernels apart");
  std::vector<Measured> cubes;
  for (std::int64_t side = 64; side <= largest; side *= 2)
    for (const std::int64_t s : {side, side + side / 2}) {
      if (s > largest) continue;
      const double direct = time(s, kNever), indirect = time(s, kAlways), least = std::min(direct, indirect);
      cubes.push_back({s, direct / least, indirect / least});
    }
  std::int64_t best = kNever;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t first = 0; first <= cubes.size(); ++first) {
    double sum = 0;
    for (std::size_t i = 0; i < cubes.size(); ++i) sum += i < first ? cubes[i].direct : cubes[i].indirect;
    if (sum >= least) continue;
    least = sum;
    best = first < cubes.size() ? cubes[first].side : kNever;
  }
  return best;
}

}  // namespace

std::span<const std::string_view> clblast_kernels() {
  static constexpr std::string_view names[] = {"Copy", "Pad", "Transpose", "Padtranspose", "Xgemm", "XgemmDirect", kRoutine};
  return names;
}

namespace {

ClblastParameters tuned_kernel(cl_command_queue q, std::string_view kernel, std::size_t n, double one_in) {
  ClblastTable best;
  const auto tuner = [&](double fraction) {
    best.clear();
    if (kernel == "Copy") return clblast::TuneCopy<float>(&q, n, n, fraction, best);
    if (kernel == "Pad") return clblast::TunePad<float>(&q, n, n, fraction, best);
    if (kernel == "Transpose") return clblast::TuneTranspose<float>(&q, n, n, fraction, best);
    if (kernel == "Padtranspose") return clblast::TunePadtranspose<float>(&q, n, n, fraction, best);
    if (kernel == "Xgemm") return clblast::TuneXgemm<float>(&q, n, n, n, fraction, best);
    return clblast::TuneXgemmDirect<float>(&q, n, n, n, fraction, best);
  };
  // It takes a share of all, and fails where that is less than one: then more are tried.
  auto status = tuner(1 / one_in);
  while (status == clblast::StatusCode::kUnexpectedError && one_in > 1) {
    one_in = std::max(one_in / 4, 1.0);
    status = tuner(1 / one_in);
  }
  require_clblast(status, fmt::format("Tune{}", kernel));
  return {best.begin(), best.end()};
}

}  // namespace

ClblastParameters tune_clblast(Device& device, std::string_view kernel, std::int64_t size, double one_in) {
  ClblastParameters best;
  cl_device_id tuned = nullptr;
  device.native(
      [&](void* queue, void**) {
        auto q = static_cast<cl_command_queue>(queue);
        tuned = device_of(q);
        if (kernel != kRoutine) best = tuned_kernel(q, kernel, at(size), one_in);
      },
      "clblast tuner");
  if (kernel == kRoutine) best = {{kLeastSide, at(least_indirect_side(CubeTimes(device, tuned, size), size))}};
  use_clblast_parameters(tuned, std::string(kernel), best);
  return best;
}

}  // namespace gemel::opencl
