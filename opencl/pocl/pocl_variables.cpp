#include "opencl/pocl/pocl_variables.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "opencl/device/device.h"

namespace gemel::opencl {
namespace {

[[noreturn]] void refuse(const char* variable, const std::string& value, const std::string& accepted) {
  throw UsageError(fmt::format("{}: '{}' is not accepted; accepted: {}", variable, value, accepted));
}

void check_number(const char* variable, std::int64_t least, std::int64_t most, const char* why) {
  const std::string text = from_environment(variable);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most)) return;
  refuse(variable, text, fmt::format("digits, {}{}{}", least, most == std::numeric_limits<int>::max() ? " or more" : fmt::format("..{}", most), why));
}

}  // namespace

int processors_to_bind_to(const AllowedCores& cores) {
  const std::vector<int>& mask = cores.processors;
  int n = 0;
  while (n < static_cast<int>(mask.size()) && mask[static_cast<std::size_t>(n)] == n) ++n;
  return n;
}

void check_pocl_variables(int threads) {
  constexpr std::int64_t kMostThreads = 4096, kLongestDelay = 600, kLargest = std::numeric_limits<int>::max();
  // A worker that is bound to a processor which is not there ends the process.
  const std::string affinity = from_environment("POCL_AFFINITY");
  const bool binds = !affinity.empty() && affinity != "0";
  const std::int64_t most = binds ? processors_to_bind_to(allowed_cores()) : kMostThreads;
  if (binds && std::max(threads, 1) > most)
    refuse("POCL_AFFINITY", affinity, fmt::format("0 for {} threads, more than the processors 0, 1, ... that this process may use", std::max(threads, 1)));
  for (const char* variable : {"POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT", "POCL_PTHREAD_MIN_THREADS"})
    check_number(variable, 0, most, binds ? ": the processors, which POCL_AFFINITY binds threads to" : "");
  check_number("POCL_MAX_WORK_GROUP_SIZE", 64, kLargest, "");
  check_number("POCL_STARTUP_DELAY", 0, kLongestDelay, " seconds");
  if (const std::string passes = from_environment("POCL_DEBUG_LLVM_PASSES"); !passes.empty() && passes != "0")
    refuse("POCL_DEBUG_LLVM_PASSES", passes, "0, or an LLVM that is built for it");
  if (const std::string offline = from_environment("POCL_OFFLINE_COMPILE"); !offline.empty() && offline != "0")
    refuse("POCL_OFFLINE_COMPILE", offline, "0; with it PoCL's devices compile and compute nothing");
  if (const std::string tracing = from_environment("POCL_TRACING"); tracing == "cq")
    refuse("POCL_TRACING", tracing, "text");  // PoCL's ends with the queues that it traces
}

}  // namespace gemel::opencl
