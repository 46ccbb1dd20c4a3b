#include "opencl/program/build_ahead.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace gemel::opencl {

std::vector<ProgramHandle> build_side_by_side(const BuildTarget& target, const ProgramCache& cache, std::span<const ProgramText> texts) {
  constexpr std::chrono::seconds kSilence{1};
  std::vector<ProgramHandle> built(texts.size());
  const std::size_t threads = std::min(target.threads, texts.size());
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t working = threads;
  const auto work = [&] {
    for (std::size_t i = next++; i < texts.size(); i = next++) {
      try {
        built[i] = build_program(target.context, target.device, cache, texts[i]);
      } catch (const std::exception&) {
        // It is built again, and refused, where a kernel of it is asked for.
      }
    }
    const std::lock_guard lock(mutex);
    --working;
    changed.notify_one();
  };
  std::vector<std::jthread> workers;
  try {
    while (workers.size() < threads) workers.emplace_back(work);
  } catch (const std::system_error&) {
    // The system gives no further thread: those that there are do the work, or each program is built where it is asked for.
  }
  std::unique_lock lock(mutex);
  working -= threads - workers.size();
  if (!changed.wait_for(lock, kSilence, [&] { return working == 0; })) {
    const std::string line = fmt::format("gemel: the driver compiles {} programs for {}, on {} cores; later runs find them compiled\n", texts.size(),
                                         target.device_name, workers.size());
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
  changed.wait(lock, [&] { return working == 0; });
  return built;
}

}  // namespace gemel::opencl
