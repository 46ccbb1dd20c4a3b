#include "frontends/cli/system/resident_peak.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace gemel::cli {
namespace {

/// A line of /proc/self/status such as "VmHWM:   1234 kB", in bytes; 0 where there is none.
std::int64_t status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;)
    if (std::int64_t kibibytes = 0; word == key + ":" && file >> kibibytes) return 1024 * kibibytes;
  return 0;
}

}  // namespace

ResidentPeak::ResidentPeak() : before_(status_bytes("VmRSS")) {
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew; where this is forbidden it is that of the whole process
}

std::int64_t ResidentPeak::bytes() const { return std::max<std::int64_t>(0, status_bytes("VmHWM") - before_); }

}  // namespace gemel::cli
