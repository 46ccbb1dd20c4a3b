#include "opencl/program/compilation_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <mutex>
#include <system_error>
#include <vector>

#include "opencl/device/verbose.h"
#include "opencl/event_wait.h"
#include "opencl/pocl/driver_cache.h"

namespace gemel::opencl {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

void print(const std::string& line) { std::fwrite(line.data(), 1, line.size(), stderr); }

/// Tells the sum when the process ends.
class Count {
 public:
  static Count& of_process() {
    static Count count;
    return count;
  }
  ~Count() {
    if (met_ > 0) print(fmt::format("kernels: {} compiled, {} found compiled\n", compiled_, met_ - std::min(met_, compiled_)));
  }
  void met(std::size_t kernels) {
    const std::lock_guard lock(mutex_);
    met_ += kernels;
  }
  void compiled(const std::string& what, Clock::duration took) {
    const std::lock_guard lock(mutex_);
    ++compiled_;
    print(fmt::format("kernels: compiled {} in {:.2f} s\n", what, std::chrono::duration<double>(took).count()));
  }

 private:
  std::mutex mutex_;
  std::size_t met_ = 0, compiled_ = 0;
};

/// PROGRAM/KERNEL/GROUP/KERNEL.so
std::set<std::string> kernels_in(const fs::path& folder) {
  std::set<std::string> out;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(folder, error); !error && it != fs::recursive_directory_iterator(); it.increment(error))
    if (it->path().extension() == ".so" && it->path().parent_path() != folder) out.insert(it->path().lexically_relative(folder).string());
  return out;
}

/// "sum for groups of 8-1-1"
std::string told(const fs::path& kernel) { return fmt::format("{} for groups of {}", kernel.stem().string(), kernel.parent_path().filename().string()); }

}  // namespace

CompilationWatch::CompilationWatch(std::size_t kernels, cl_command_queue queue) : kernels_(kernels > 0 && is_told("kernels") ? kernels : 0), queue_(queue) {
  if (kernels_ == 0) return;
  folder_ = DriverCache::of_process().folder();
  before_ = kernels_in(folder_);
  begin_ = Clock::now();
}

CompilationWatch::~CompilationWatch() {
  if (kernels_ == 0) return;
  finish(queue_);
  const Clock::duration took = Clock::now() - begin_;
  const fs::path now = DriverCache::of_process().folder();  // it may have gone elsewhere, with links to what there was
  std::vector<std::string> fresh;
  std::ranges::set_difference(kernels_in(now), before_, std::back_inserter(fresh));
  Count& count = Count::of_process();
  count.met(std::max(kernels_, fresh.size()));
  for (const std::string& kernel : fresh) count.compiled(told(kernel), took / static_cast<Clock::rep>(fresh.size()));
}

void count_program() {
  if (is_told("kernels")) Count::of_process().met(1);
}

void tell_compiled(const std::string& program, Clock::duration took) {
  if (is_told("kernels")) Count::of_process().compiled("program " + program, took);
}

}  // namespace gemel::opencl
