// Private to opencl/: KeptWrites, writes from host memory that lives until they are done.
#pragma once
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "opencl/device/last_work.h"
#include "opencl/handle.h"
#include "opencl/memory/buffer.h"

namespace gemel::opencl {

/// Not thread-safe.
class KeptWrites {
 public:
  explicit KeptWrites(LastWork& last) : last_(last) {}
  /// Enqueues a write. @return its event, until the next call
  const EventHandle& enqueue(cl_command_queue queue, const Region& to, std::shared_ptr<const std::vector<std::byte>> from);
  /// Lets go of the bytes of those that are done. @throws DeviceError if one has failed
  void forget_finished();

 private:
  LastWork& last_;
  std::deque<std::pair<EventHandle, std::shared_ptr<const std::vector<std::byte>>>> writes_;  // in queue order
};

}  // namespace gemel::opencl
