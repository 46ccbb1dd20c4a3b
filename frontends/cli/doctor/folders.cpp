// gemel doctor: folders that a run needs.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include "engine/base/text/shell_quote.h"
#include "frontends/cli/doctor/health_check.h"
#include "frontends/cli/launch/mpirun_environment.h"
#include "opencl/device/device.h"
#include "opencl/program/kernel_cache_location.h"

namespace gemel::cli {
namespace {

namespace fs = std::filesystem;
using opencl::from_environment;

struct Room {
  double all = 0, free = 0;  // bytes
};
std::optional<Room> room_in(const fs::path& folder) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return std::nullopt;
  const auto block = static_cast<double>(disk.f_frsize);
  return Room{static_cast<double>(disk.f_blocks) * block, static_cast<double>(disk.f_bavail) * block};
}

/// Where Open MPI's launcher makes the sockets and files of a job: without it, it starts nothing.
Finding temporary_folder() {
  const MpirunFolder folder = folder_of_mpirun();
  const auto why = folder_cannot(folder);
  if (!why) {
    const auto room = room_in(folder.path);
    return {Health::ok, fmt::format("{}, {}", folder.path.string(), room ? bytes_text(room->free) + " free" : "which mpirun makes")};
  }
  std::string remedy = fmt::format("a folder with room that can be written, named by {}", folder.variable);
  for (const std::string& other : {std::string("/tmp"), std::string("/var/tmp"), std::string("/dev/shm"), from_environment("HOME")})
    if (!other.empty() && !folder_cannot({folder.variable, other})) {
      remedy = fmt::format("export {}={}", folder.variable, shell_word(other));
      break;
    }
  return {Health::wrong, why->substr(0, why->find("; accepted: ")), remedy};
}

/// Through it Open MPI passes large messages between ranks of one machine.
Finding shared_memory() {
  constexpr const char* kFolder = "/dev/shm";
  constexpr double kLittle = 16 << 20;  // bytes: what two ranks of Open MPI take
  const auto room = room_in(kFolder);
  if (!room) return {Health::odd, fmt::format("{} is not there: Open MPI passes messages by other ways", kFolder), as_root("mount -t tmpfs none /dev/shm")};
  const std::string text = fmt::format("{}, {} free", bytes_text(room->all), bytes_text(room->free));
  if (::access(kFolder, W_OK) != 0) {
    const bool is_mount = errno == EROFS;
    return {Health::odd, fmt::format("{} cannot be written: Open MPI passes messages by slower ways", kFolder),
            !is_mount          ? as_root("chmod 1777 /dev/shm")
            : may_administer() ? "mount -o remount,rw /dev/shm"
                               : "one that can be written, of the container"};
  }
  if (room->free >= kLittle) return {Health::ok, text};
  const std::string all = text + ": Open MPI passes messages by slower ways";
  if (room->all >= 4 * kLittle) return {Health::odd, all, "remove what ended programs have left in /dev/shm"};
  return {Health::odd, all, may_administer() ? "mount -o remount,size=1G /dev/shm" : "a larger one, of the container: docker run --shm-size=1g"};
}

/// A folder that compiled kernels can lie in, by the variable that names it.
std::string remedy_of_kernels(const opencl::KernelPlace& place) {
  constexpr rlim_t kLargestKernel = 2 << 20;  // bytes
  if (rlimit largest{}; ::getrlimit(RLIMIT_FSIZE, &largest) == 0 && largest.rlim_cur < kLargestKernel) return remedy_of_limit("(ulimit -f)");
  if (place.by_variable == "POCL_CACHE_DIR") return "unset POCL_CACHE_DIR";
  const std::string user = std::to_string(::geteuid()), home = from_environment("HOME");
  for (const fs::path& parent : {fs::path(home.empty() ? "" : home + "/.cache"), fs::path("/var/tmp"), fs::path("/tmp"), fs::path("/dev/shm")}) {
    const fs::path folder = parent / (parent == fs::path(home) / ".cache" ? "gemel" : "gemel-" + user);
    if (!parent.empty() && folder != place.folder && opencl::why_no_kernels(folder).empty()) return "export GEMEL_CACHE_DIR=" + shell_word(folder.string());
  }
  return "a folder of yours with room for files that can be executed, named by GEMEL_CACHE_DIR";
}

Finding kernel_folder() {
  const opencl::KernelPlace place = opencl::kernel_place();
  const std::string folder = place.folder.empty() ? "this user" : place.folder.string();
  if (place.why_not.empty()) return {Health::ok, fmt::format("{}, {} free", folder, bytes_text(room_in(place.folder).value_or(Room{}).free))};
  if (!place.refused.empty()) return {Health::wrong, fmt::format("{} {}; runs end: {}", folder, place.why_not, place.refused), remedy_of_kernels(place)};
  return {Health::odd, fmt::format("{} {}: kernels are compiled again in every run", folder, place.why_not), remedy_of_kernels(place)};
}

}  // namespace

std::vector<Check> folder_checks() { return {{"temporary-folder", temporary_folder}, {"shared-memory", shared_memory}, {"kernel-folder", kernel_folder}}; }

}  // namespace gemel::cli
