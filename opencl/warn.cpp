#include "opencl/warn.h"

#include <cstdio>
#include <mutex>
#include <set>

namespace gemel::opencl {

void warn(const std::string& text) {
  // Never destroyed: threads may still warn while the process ends.
  static auto& mutex = *new std::mutex;
  static auto& said = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (!said.insert(text).second) return;
  const std::string line = "gemel: warning: " + text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);  // a closed or full standard error takes the words and not the run
}

}  // namespace gemel::opencl
