#include "opencl/clblast/clblast_gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "opencl/clblast/clblast_calls.h"
#include "opencl/clblast/clblast_parameters.h"
#include "opencl/device/warn.h"
#include "opencl/memory/block.h"

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

/// Where a matrix begins: at a float of a buffer.
struct Place {
  cl_mem memory;
  std::size_t first;
};
struct Places {
  Place a, b, c;
};
Place place_of(const Region& region, const DeviceProfile& d) {
  if (d.overlaps_sub_buffers) return {memory_of(region), 0};
  return {region.block->memory.get(), at(region.offset / 4)};
}

/// The side of a cube from which on it computes products by its indirect kernel, which pads and transposes.
std::size_t least_indirect_side(cl_command_queue queue) {
  ClblastTable parameters;
  require_clblast(clblast::RetrieveParameters(device_of(queue), "GemmRoutine", clblast::Precision::kSingle, parameters), "RetrieveParameters of GemmRoutine");
  return parameters.at("XGEMM_MIN_INDIRECT_SIZE");
}

/// What a profile calls a product: by which of its kernels, and what it copies for it.
std::string name_of(const GemmProblem& p, std::size_t least_side, std::int64_t copied_bytes) {
  const auto side = static_cast<double>(least_side);
  if (static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) < side * side * side) return "clblast direct";
  return copied_bytes > 0 ? fmt::format("clblast indirect, {} bytes copied", copied_bytes) : "clblast indirect";
}

}  // namespace

void require_clblast(clblast::StatusCode status, const std::string& what) {
  constexpr int kLastOfOpenCl = -72;
  const int code = static_cast<int>(status);
  if (code < 0 && code >= kLastOfOpenCl) check(code, ("clblast::" + what).c_str());
  if (code != 0) throw DeviceError(fmt::format("clblast::{}: status {}", what, code));
}

cl_device_id device_of(cl_command_queue queue) {
  cl_device_id device = nullptr;
  check(clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, nullptr), "clGetCommandQueueInfo");
  return device;
}

bool clblast_reaches(const GemmProblem& p) {
  const std::int64_t most = std::max({padded_elements(p), p.batch * p.stride_a, p.batch * p.stride_b, p.batch * p.stride_c});
  return most <= std::numeric_limits<std::int32_t>::max();
}

void clblast_gemm(Device& device, const GemmProblem& p, const GemmOperands& operands) {
  const float alpha = 1, beta = p.adds ? 1 : 0;
  // As column-major matrices, of which c is n by m and the product of b and a. Of these it transposes a where it is not given transposed, and b
  // where it is: nothing in a gradient of weights, one matrix in a forward pass. Of row-major matrices it would transpose c as well.
  constexpr auto kLayout = clblast::Layout::kColMajor;
  const auto lda = lead(p.a, p.m, p.k), ldb = lead(p.b, p.k, p.n), ldc = at(p.n);
  const auto enqueue = [&](const std::string& name, const auto& call) {
    device.native(
        [&](void* queue, void** event) {
          auto q = static_cast<cl_command_queue>(queue);
          const DeviceProfile& profile = device.profile();
          const Places places{place_of(operands.a, profile), place_of(operands.b, profile), place_of(operands.c, profile)};
          require_clblast(call(places, &q, reinterpret_cast<cl_event*>(event)));
        },
        name);
  };
  struct Way {
    std::int64_t copied_bytes = 0;
    std::string name = "clblast";
  };
  const auto way_of = [&](std::int64_t g) {
    Way way;
    enqueue(kNoWork, [&](const Places& m, cl_command_queue* q, cl_event*) {
      std::size_t needed = 0;
      const auto status = clblast::GemmTempBufferSize<float>(kLayout, flag(p.b), flag(p.a), at(p.n), at(p.m), at(p.k), m.b.first + at(g * p.stride_b), ldb,
                                                             m.a.first + at(g * p.stride_a), lda, m.c.first + at(g * p.stride_c), ldc, q, needed);
      way.copied_bytes = narrow<std::int64_t>(needed);
      if (device.settings().profiling) way.name = name_of(p, least_indirect_side(*q), way.copied_bytes);
      return status;
    });
    return way;
  };
  // In a batch it allocates what it pads and transposes itself, beside the memory limit, and where it pads nothing it forgets where the matrices
  // begin in their buffers. It pads what does not begin there, so this asks with the true places. Products so large mostly fill the device one at a time.
  const Way first = way_of(0);
  if (batched(p) && first.copied_bytes == 0) {
    enqueue(first.name, [&](const Places& m, cl_command_queue* q, cl_event* e) {
      return clblast::GemmStridedBatched<float>(kLayout, flag(p.b), flag(p.a), at(p.n), at(p.m), at(p.k), alpha, m.b.memory, m.b.first, ldb, at(p.stride_b),
                                                m.a.memory, m.a.first, lda, at(p.stride_a), beta, m.c.memory, m.c.first, ldc, at(p.stride_c), at(p.batch), q,
                                                e);
    });
    return;
  }
  for (std::int64_t g = 0; g < p.batch; ++g) {
    const Way way = g == 0 ? first : way_of(g);
    const Buffer padded = way.copied_bytes > 0 ? device.memory().allocate(way.copied_bytes, "CLBlast's padded matrices") : Buffer();
    enqueue(way.name, [&](const Places& m, cl_command_queue* q, cl_event* e) {
      return clblast::Gemm<float>(kLayout, flag(p.b), flag(p.a), at(p.n), at(p.m), at(p.k), alpha, m.b.memory, m.b.first + at(g * p.stride_b), ldb, m.a.memory,
                                  m.a.first + at(g * p.stride_a), lda, beta, m.c.memory, m.c.first + at(g * p.stride_c), ldc, q, e,
                                  padded ? padded.block()->memory.get() : nullptr);
    });
  }
}

void use_clblast_parameters(cl_device_id device, const std::string& kernel, const ClblastParameters& parameters) {
  require_clblast(clblast::OverrideParameters(device, kernel, clblast::Precision::kSingle, ClblastTable(parameters.begin(), parameters.end())),
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

}  // namespace gemel::opencl
