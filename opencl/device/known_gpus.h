// Facts of GPUs by family, from their makers' data sheets: for pretence (opencl/device/pretended_gpu.h), and for what drivers do not tell.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace gemel::opencl {

struct KnownGpu {
  std::string_view name;
  int units;                   // as OpenCL counts them: CUs or WGPs (AMD), SMs (NVIDIA), EUs (Intel)
  int wave;                    // work-items in lockstep
  std::int64_t local_bytes;    // of a work-group, as the driver tells it
  std::int64_t group;          // most work-items of a work-group
  std::int64_t cache_bytes;    // the last cache before memory
  double gflops, gbs;          // peaks: float32 by fused multiply-add at boost clock, matrix units aside; memory
  bool takes_offsets = false;  // its driver's sub-buffers must not overlap (DeviceProfile::overlaps_sub_buffers)
  bool has_tf32 = false;       // its matrix units multiply TF32
  double flops_a_byte() const { return gflops / gbs; }
};

std::span<const KnownGpu> known_gpus();
/// The one whose name stands in a device's, such as "NVIDIA H100 80GB HBM3"; null: none does.
const KnownGpu* known_gpu(std::string_view device);

}  // namespace gemel::opencl
