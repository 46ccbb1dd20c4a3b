#include "opencl/program/build_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "opencl/pocl/driver_cache.h"

namespace gemel::opencl {

BuildTurns::Turn::Turn(std::unique_lock<std::mutex> thread, int file) : thread_(std::move(thread)), file_(file) {
  while (file_ >= 0 && ::flock(file_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

BuildTurns::Turn::Turn(Turn&& other) noexcept : thread_(std::move(other.thread_)), file_(std::exchange(other.file_, -1)) {}

BuildTurns::Turn::~Turn() {
  if (file_ >= 0) ::flock(file_, LOCK_UN);
}

BuildTurns::OfQueue::~OfQueue() {
  if (!turn_) return;
  finish(queue_);
  DriverCache::of_process().note();
}

BuildTurns::BuildTurns(const std::filesystem::path& folder) : file_(::open((folder / "gemel.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {}

BuildTurns::~BuildTurns() {
  if (file_ >= 0) ::close(file_);
}

Range as_driver_meets(const Range& range) {
  constexpr std::int64_t kFew = 65535;  // groups, of PoCL
  Range met = range;
  for (int d = 0; range.local[0] > 0 && d < range.dimensions; ++d) met.global[d] = range.local[d] > 0 && range.global[d] / range.local[d] > kFew;
  return met;
}

bool is_new_to_driver(Kernel& kernel, const Range& range) { return kernel.launched.insert(as_driver_meets(range)).second; }

}  // namespace gemel::opencl
