#include "opencl/build_turns.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

namespace gemel::opencl {

BuildTurns::Turn::Turn(int file) : file_(file) {
  int result;
  do result = ::flock(file_, LOCK_EX);
  while (result != 0 && errno == EINTR);
}

BuildTurns::Turn::Turn(Turn&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

BuildTurns::Turn::~Turn() {
  if (file_ >= 0) ::flock(file_, LOCK_UN);
}

BuildTurns::BuildTurns(const std::filesystem::path& folder) : file_(::open((folder / "gemel.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {}

BuildTurns::~BuildTurns() {
  if (file_ >= 0) ::close(file_);
}

BuildTurns::Turn BuildTurns::take() { return file_ >= 0 ? Turn(file_) : Turn(); }

std::optional<std::filesystem::path> shared_pocl_cache() {
  const char* folder = std::getenv("POCL_CACHE_DIR");
  if (!folder || !*folder) return std::nullopt;
  for (const char* ranks : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"})
    if (const char* text = std::getenv(ranks); text && std::atoi(text) > 1) return folder;
  return std::nullopt;
}

}  // namespace gemel::opencl
