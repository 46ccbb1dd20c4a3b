#include "opencl/program/build_ahead.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include "engine/base/error.h"

namespace gemel::opencl {

std::vector<ProgramHandle> build_side_by_side(cl_context context, cl_device_id device, const ProgramCache& cache, std::span<const ProgramText> texts,
                                              const std::string& device_name) {
  constexpr std::chrono::seconds kSilence{1};
  std::vector<ProgramHandle> built(texts.size());
  const std::size_t threads = std::min<std::size_t>(std::max(std::thread::hardware_concurrency(), 1U), texts.size());
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t working = threads;
  const auto work = [&] {
    for (std::size_t i = next++; i < texts.size(); i = next++) {
      try {
        built[i] = build_program(context, device, cache, texts[i]);
      } catch (const DeviceError&) {
        // It is built again, and refused, where a kernel of it is asked for.
      }
    }
    const std::lock_guard lock(mutex);
    --working;
    changed.notify_one();
  };
  std::vector<std::jthread> workers;
  for (std::size_t t = 0; t < threads; ++t) workers.emplace_back(work);
  std::unique_lock lock(mutex);
  if (!changed.wait_for(lock, kSilence, [&] { return working == 0; }))
    fmt::print(stderr, "gemel: the driver compiles {} programs for {}, on {} cores; later runs find them compiled\n", texts.size(), device_name, threads);
  changed.wait(lock, [&] { return working == 0; });
  return built;
}

}  // namespace gemel::opencl
