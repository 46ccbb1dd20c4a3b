#include "opencl/device/warn.h"

#include <cstdio>
#include <memory>
#include <mutex>
#include <set>

namespace gemel::opencl {

void warn(const std::string& text) {
  static std::mutex mutex;
  static auto& said = *std::make_unique<std::set<std::string>>().release();  // never destroyed: threads may still warn while the process ends
  const std::lock_guard lock(mutex);
  if (!said.insert(text).second) return;
  const std::string line = "gemel: warning: " + text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);  // a closed or full standard error takes the words and not the run
}

}  // namespace gemel::opencl
