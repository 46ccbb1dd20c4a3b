// Private to opencl/: processes that share a driver's cache of compiled kernels take turns, so that each kernel is compiled once.
#pragma once
#include <filesystem>
#include <optional>

namespace gemel::opencl {

class BuildTurns {
 public:
  /// One process's at a time, as long as it lives.
  class Turn {
   public:
    Turn() = default;
    explicit Turn(int file);
    Turn(Turn&& other) noexcept;
    Turn& operator=(Turn&&) = delete;
    ~Turn();
    explicit operator bool() const { return file_ >= 0; }

   private:
    int file_ = -1;
  };

  /// @param folder  where they share a cache; where nothing can be written in it nobody waits
  explicit BuildTurns(const std::filesystem::path& folder);
  ~BuildTurns();
  BuildTurns(const BuildTurns&) = delete;
  BuildTurns& operator=(const BuildTurns&) = delete;
  /// Waits for the others. Whoever has a turn waits for nothing that another process has to do.
  Turn take();

 private:
  int file_;
};

/// Where several ranks of a job that a launcher started build by PoCL: the folder of its cache.
std::optional<std::filesystem::path> shared_pocl_cache();

}  // namespace gemel::opencl
