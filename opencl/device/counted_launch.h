// What a launch enqueues on a device that is only described: kernels, work-groups, bytes. Nothing is built, and no driver is asked.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "opencl/device/recording.h"

namespace gemel::opencl {

/// A kernel, copy or fill, or the work of another library, whose bytes are not known here.
struct CountedCommand {
  std::string name;
  std::int64_t groups = 0, group_items = 0;  // of a kernel, as it is asked for
  std::int64_t read_bytes = 0, written_bytes = 0;
  std::int64_t cached_bytes = 0;  // read or written, but not counted there: workspace that stays in the last cache
  bool is_native = false;
};

/// An operand of a launch.
struct CountedOperand {
  std::int64_t bytes = 0;
  bool is_input = false;  // holds something: a kernel that may write it reads it too
  bool is_workspace = false;
  int lies_at = -1;  // the operand whose memory it is; -1: its own
};

struct CountedLaunch {
  std::vector<CountedCommand> commands;
  std::vector<ProgramRequest> programs;  // of its kernels
};

/// Counts each buffer that a kernel gets once, as read where the kernel's parameter is const, else as written; an input that it may write as both. So what a
/// kernel reads again out of caches does not count, and of a buffer that it uses in part all does. What a kernel gets of the workspace is apart where all
/// of it fits into half of the device's last cache: it was written just before, or is read just after.
CountedLaunch count_launch(const DeviceProfile& profile, std::span<const CountedOperand> operands, const Recording::Launch& launch);

}  // namespace gemel::opencl
