// gemel_launches: what the host takes for a launch: a chain of additions of 16 elements, or the backward pass through a chain of multiplications,
// in turn with a loop that sets all arguments of the kernel of an addition and enqueues it.
//
//   gemel_launches [--operators 1000] [--pairs 20]
//
// A line a front end: the median of its time over that of the bare loop which ran before it, each from the first enqueue to the end of the last
// kernel; the time of one operator; and what the thread that enqueues spends on one, here and in the bare loop.
#include <fmt/format.h>
#include <time.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/micro/benchmark_main.h"
#include "engine/device/device_memory.h"
#include "engine/device/dispatch.h"
#include "engine/device/launch.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/cli/options/common_options.h"
#include "frontends/cli/run/bench_case.h"
#include "frontends/graph/compile.h"
#include "opencl/device/recording.h"
#include "opencl/memory/block.h"
#include "opencl/program/kernel.h"

namespace gemel {
namespace {

const Spec kSpec = f32({16});

/// The kernel of one addition with its arguments, for OpenCL itself.
class BareLoop {
 public:
  explicit BareLoop(Session& session) : device_(session.device()) {
    const Specs in{kSpec, kSpec}, out{kSpec};
    const Attributes none;
    const Problem problem{add_def(), none, in, out};
    for (int i = 0; i < 3; ++i) values_.push_back(full(session, kSpec, 0));
    for (const Value& v : values_) operands_.push_back(region_of(v));
    const Variant& variant = choose(problem, device_.profile());
    recording_ = opencl::Recording::make(device_, operands_, [&](opencl::Device& stand_in, std::span<const opencl::Region> operands) {
      Launch call({stand_in, {}}, problem, operands.first(2), operands.subspan(2), {});
      variant.launch(call);
    });
    run_ = &std::get<opencl::Recording::Run>(recording_->entries()[0]);
    for (const auto& argument : run_->arguments) std::visit([&](const auto& value) { add(value); }, argument);
    for (std::size_t d = 0; d < 3; ++d) {
      global_[d] = static_cast<std::size_t>(run_->range.global[d]);
      local_[d] = static_cast<std::size_t>(run_->range.local[d]);
    }
  }
  void enqueue(int times) const {
    cl_kernel kernel = run_->kernel->handle.get();
    const auto dimensions = static_cast<cl_uint>(run_->range.dimensions);
    device_.native(
        [&](void* queue, void**) {
          for (int t = 0; t < times; ++t) {
            for (std::size_t i = 0; i < arguments_.size(); ++i)
              opencl::check(clSetKernelArg(kernel, static_cast<cl_uint>(i), arguments_[i].size(), arguments_[i].data()), "clSetKernelArg");
            opencl::check(clEnqueueNDRangeKernel(static_cast<cl_command_queue>(queue), kernel, dimensions, nullptr, global_, local_[0] ? local_ : nullptr, 0,
                                                 nullptr, nullptr),
                          "clEnqueueNDRangeKernel");
          }
        },
        "bare loop");
  }

 private:
  void add(const opencl::Recording::Place& place) {
    add(opencl::memory_of(place.in(operands_)));
    if (!device_.profile().overlaps_sub_buffers) add(cl_ulong{0});
  }
  template <class T>
  void add(const T& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    arguments_.emplace_back(bytes.begin(), bytes.end());
  }
  opencl::Device& device_;
  Values values_;
  std::vector<opencl::Region> operands_;
  std::unique_ptr<const opencl::Recording> recording_;
  const opencl::Recording::Run* run_ = nullptr;
  std::vector<std::vector<std::byte>> arguments_;
  std::size_t global_[3]{}, local_[3]{};
};

Value chain(Value (*op)(Value, Value), Value x, const Value& y, int operators) {
  for (int i = 0; i < operators; ++i) x = op(std::move(x), y);
  return x;
}

/// One way to enqueue a chain's kernels, and what must be there before.
struct Way {
  const char* name;
  std::function<void()> prepare, enqueue;
};

struct Seconds {
  double all, thread;  // to the end of the last kernel; of the thread that enqueues, until it has
};

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Seconds seconds_of(opencl::Device& device, const std::function<void()>& enqueue) {
  device.finish();
  const double thread_begin = thread_seconds();
  const auto begin = std::chrono::steady_clock::now();
  enqueue();
  const double thread = thread_seconds() - thread_begin;
  device.finish();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), thread};
}

int run(const std::vector<std::string>& arguments) {
  namespace po = cli::po;
  po::options_description options("options", 110);
  auto option = options.add_options();
  option("operators", po::value<std::int64_t>()->default_value(1000), "length of the chain");
  option("pairs", po::value<std::int64_t>()->default_value(20), "the median of so many counts");
  cli::add_device_options(options);
  const auto v = cli::parse("gemel_launches", "What the host takes for a launch, beside a bare loop over the same kernel.", options, arguments);
  const auto operators = static_cast<int>(cli::whole_number(v, "operators", 1, 1e6));
  const std::int64_t pairs = cli::whole_number(v, "pairs", 1, 1e6);
  Session session(opencl::Device::open(cli::device_options(v)));
  opencl::Device& device = session.device();
  const Value x = full(session, kSpec, 0), y = full(session, kSpec, 1), parameter = leaf(x);
  auto compiled = graph::compile(
      session, [&](const Values& in) { return list(chain(add, in[0], in[1], operators)); }, parse_passes("none"));
  const BareLoop bare(session);
  Value made, result;  // let go between two measurements: a history is no launch
  const auto nothing = [] {};
  const Way ways[] = {{"replayed graph", nothing,
                       [&] {
                         result = compiled({x, y})[0];
                       }},
                      {"eager without history", nothing, [&] { result = chain(add, x, y, operators); }},
                      {"eager with history", nothing, [&] { result = chain(add, parameter, y, operators); }},
                      {"eager backward", [&] { made = chain(multiply, parameter, y, operators); }, [&] { result = gradient({made}, {parameter}, {y})[0]; }}};
  for (const auto& [name, prepare, enqueue] : ways) {
    std::vector<double> ratios, times, threads, bare_threads;
    for (std::int64_t i = -3; i < pairs; ++i) {
      prepare();
      const Seconds alone = seconds_of(device, [&] { bare.enqueue(operators); }), with = seconds_of(device, enqueue);
      made = result = Value();
      if (i < 0) continue;
      ratios.push_back(with.all / alone.all);
      times.push_back(1e6 * with.all / operators);
      threads.push_back(1e6 * with.thread / operators);
      bare_threads.push_back(1e6 * alone.thread / operators);
    }
    const cli::Spread ratio = cli::spread_of(ratios);
    fmt::print("{:<22} {:.2f} of the bare loop ({:.2f}..{:.2f}), {:.2f} us an operator, the thread {:.2f} (bare {:.2f})\n", name, ratio.median, ratio.min,
               ratio.max, cli::spread_of(times).median, cli::spread_of(threads).median, cli::spread_of(bare_threads).median);
  }
  return 0;
}

}  // namespace
}  // namespace gemel

int main(int count, char** values) { return gemel::benchmark_main("gemel_launches", gemel::run, count, values); }
