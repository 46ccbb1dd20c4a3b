#include "opencl/clblast/clblast_gemm.h"

#include <clblast.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "opencl/clblast/clblast_parameters.h"
#include "opencl/device/warn.h"
#include "opencl/memory/block.h"  // before clblast.h, which would choose another version of the OpenCL headers

namespace gemel::opencl {
namespace {

constexpr std::int64_t kWidestTile = 128;

/// That it pads and transposes at most: its tiles are 128 wide.
std::int64_t padded_elements(const GemmProblem& p) {
  const std::int64_t m = round_up(p.m, kWidestTile), n = round_up(p.n, kWidestTile), k = round_up(p.k, kWidestTile);
  return m * k + k * n + m * n;
}

bool batched(const GemmProblem& p) { return p.batch > 1 && p.stride_a && p.stride_b; }

clblast::Transpose flag(Transpose t) { return t == Transpose::yes ? clblast::Transpose::kYes : clblast::Transpose::kNo; }

std::size_t lead(Transpose t, std::int64_t rows, std::int64_t columns) { return at(t == Transpose::yes ? rows : columns); }

/// Its status is OpenCL's code where a call to OpenCL failed, so that exhaustion is a memory error here too.
void require(clblast::StatusCode status, const std::string& what = "Gemm") {
  constexpr int kLastOfOpenCl = -72;
  const int code = static_cast<int>(status);
  if (code < 0 && code >= kLastOfOpenCl) check(code, ("clblast::" + what).c_str());
  if (code != 0) throw DeviceError(fmt::format("clblast::{}: status {}", what, code));
}

/// Where a matrix begins: at a float of a buffer.
struct Place {
  cl_mem memory;
  std::size_t first;
};
Place place_of(const Region& region, const DeviceProfile& d) {
  if (d.overlaps_sub_buffers) return {memory_of(region), 0};
  return {region.block->memory.get(), at(region.offset / 4)};
}

using Found = std::unordered_map<std::string, std::size_t>;

}  // namespace

bool clblast_reaches(const GemmProblem& p) {
  const std::int64_t most = std::max({padded_elements(p), p.batch * p.stride_a, p.batch * p.stride_b, p.batch * p.stride_c});
  return most <= std::numeric_limits<std::int32_t>::max();
}

void clblast_gemm(Device& device, const GemmProblem& p, const GemmOperands& operands) {
  const DeviceProfile& profile = device.profile();
  const float alpha = 1, beta = p.adds ? 1 : 0;
  // As column-major matrices, of which c is n by m and the product of b and a. Of these it transposes a where it is not given transposed, and b
  // where it is: nothing in a gradient of weights, one matrix in a forward pass. Of row-major matrices it would transpose c as well.
  constexpr auto kLayout = clblast::Layout::kColMajor;
  const auto lda = lead(p.a, p.m, p.k), ldb = lead(p.b, p.k, p.n), ldc = at(p.n);
  const auto enqueue = [&](const char* name, const auto& call) {
    device.native(
        [&](void* queue, void** event) {
          auto q = static_cast<cl_command_queue>(queue);
          require(call(place_of(operands.a, profile), place_of(operands.b, profile), place_of(operands.c, profile), &q, reinterpret_cast<cl_event*>(event)));
        },
        name);
  };
  const auto padding = [&](cl_command_queue* q, std::size_t in_a, std::size_t in_b, std::size_t in_c) {
    std::size_t needed = 0;
    require(clblast::GemmTempBufferSize<float>(kLayout, flag(p.b), flag(p.a), at(p.n), at(p.m), at(p.k), in_b, ldb, in_a, lda, in_c, ldc, q, needed),
            "GemmTempBufferSize");
    return narrow<std::int64_t>(needed);
  };
  // In a batch it allocates what it pads and transposes itself, beside the memory limit, and where it pads nothing it forgets where the matrices
  // begin in their buffers. It pads what does not begin there, so this asks with the true places. Products so large mostly fill the device one at a time.
  bool pads = false;
  if (batched(p))
    enqueue(kNoWork, [&](const Place& a, const Place& b, const Place& c, cl_command_queue* q, cl_event*) {
      pads = padding(q, a.first, b.first, c.first) > 0;
      return clblast::StatusCode::kSuccess;
    });
  if (batched(p) && !pads) {
    enqueue("clblast", [&](const Place& a, const Place& b, const Place& c, cl_command_queue* q, cl_event* e) {
      return clblast::GemmStridedBatched<float>(kLayout, flag(p.b), flag(p.a), at(p.n), at(p.m), at(p.k), alpha, b.memory, b.first, ldb, at(p.stride_b),
                                                a.memory, a.first, lda, at(p.stride_a), beta, c.memory, c.first, ldc, at(p.stride_c), at(p.batch), q, e);
    });
    return;
  }
  for (std::int64_t g = 0; g < p.batch; ++g)
    enqueue("clblast", [&](const Place& a, const Place& b, const Place& c, cl_command_queue* q, cl_event* e) {
      const std::size_t in_a = a.first + at(g * p.stride_a), in_b = b.first + at(g * p.stride_b), in_c = c.first + at(g * p.stride_c);
      const std::int64_t needed = padding(q, in_a, in_b, in_c);
      const Buffer padded = needed > 0 ? device.memory().allocate(needed, "CLBlast's padded matrices") : Buffer();
      return clblast::Gemm<float>(kLayout, flag(p.b), flag(p.a), at(p.n), at(p.m), at(p.k), alpha, b.memory, in_b, ldb, a.memory, in_a, lda, beta, c.memory,
                                  in_c, ldc, q, e, padded ? padded.block()->memory.get() : nullptr);
    });
}

void use_clblast_parameters(cl_device_id device, const std::string& kernel, const ClblastParameters& parameters) {
  require(clblast::OverrideParameters(device, kernel, clblast::Precision::kSingle, Found(parameters.begin(), parameters.end())),
          "OverrideParameters of " + kernel);
}

void use_clblast_parameters(cl_device_id device, TuningTable& table, const DeviceProfile& profile) {
  std::erase_if(table.clblast, [&](const auto& entry) {
    try {
      use_clblast_parameters(device, entry.first, entry.second);
      return false;
    } catch (const DeviceError& e) {
      warn(fmt::format("{}: {}; the entry is not used", tuning_file(profile).value_or("tuning table").string(), e.what()));
      return true;
    }
  });
}

std::span<const std::string_view> clblast_kernels() {
  static constexpr std::string_view names[] = {"Copy", "Pad", "Transpose", "Padtranspose", "Xgemm", "XgemmDirect"};
  return names;
}

ClblastParameters tune_clblast(Device& device, std::string_view kernel, std::int64_t size, double one_in) {
  const std::size_t n = at(size);
  Found best;
  const auto tuner = [&](cl_command_queue* q, double fraction) {
    best.clear();
    if (kernel == "Copy") return clblast::TuneCopy<float>(q, n, n, fraction, best);
    if (kernel == "Pad") return clblast::TunePad<float>(q, n, n, fraction, best);
    if (kernel == "Transpose") return clblast::TuneTranspose<float>(q, n, n, fraction, best);
    if (kernel == "Padtranspose") return clblast::TunePadtranspose<float>(q, n, n, fraction, best);
    if (kernel == "Xgemm") return clblast::TuneXgemm<float>(q, n, n, n, fraction, best);
    return clblast::TuneXgemmDirect<float>(q, n, n, n, fraction, best);
  };
  device.native(
      [&](void* queue, void**) {
        auto q = static_cast<cl_command_queue>(queue);
        // It takes a share of all, and fails where that is less than one: then more are tried.
        auto status = tuner(&q, 1 / one_in);
        while (status == clblast::StatusCode::kUnexpectedError && one_in > 1) {
          one_in = std::max(one_in / 4, 1.0);
          status = tuner(&q, 1 / one_in);
        }
        require(status, fmt::format("Tune{}", kernel));
        cl_device_id tuned = nullptr;
        check(clGetCommandQueueInfo(q, CL_QUEUE_DEVICE, sizeof tuned, &tuned, nullptr), "clGetCommandQueueInfo");
        use_clblast_parameters(tuned, std::string(kernel), {best.begin(), best.end()});
      },
      "clblast tuner");
  return {best.begin(), best.end()};
}

}  // namespace gemel::opencl
