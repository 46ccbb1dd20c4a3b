// gemel_clblast: Gemel's matrix products by CLBlast against clblast::Gemm called by hand on the same operands, in turn, in one process.
//
//   gemel_clblast [--pairs 9]
//
// Products of row-major matrices, in both transpositions of each. A ratio is the time of the call by hand over Gemel's, the median of the pairs, with the
// least and the greatest; then what each copies.
#include <clblast.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "benchmarks/micro/benchmark_main.h"
#include "engine/base/numbers.h"
#include "frontends/cli/options/common_options.h"
#include "opencl/clblast/clblast_gemm.h"
#include "opencl/memory/block.h"

namespace gemel {
namespace {

using opencl::Device;
using opencl::GemmOperands;
using opencl::GemmProblem;
using opencl::Region;

void require(clblast::StatusCode status) {
  if (status != clblast::StatusCode::kSuccess) throw DeviceError(fmt::format("clblast: status {}", static_cast<int>(status)));
}

clblast::Transpose flag(Transpose t) { return t == Transpose::yes ? clblast::Transpose::kYes : clblast::Transpose::kNo; }

/// As its manual calls it: row-major matrices, each where its buffer begins.
struct ByHand {
  const GemmProblem& p;
  std::size_t m = at(p.m), n = at(p.n), k = at(p.k), lda = p.a == Transpose::yes ? m : k, ldb = p.b == Transpose::yes ? k : n;

  void gemm(cl_command_queue queue, const GemmOperands& in) const {
    require(clblast::Gemm<float>(clblast::Layout::kRowMajor, flag(p.a), flag(p.b), m, n, k, 1, in.a.block->memory.get(), 0, lda, in.b.block->memory.get(), 0,
                                 ldb, 0, in.c.block->memory.get(), 0, n, &queue));
  }
  std::size_t copied_bytes(cl_command_queue queue, clblast::Layout layout) const {
    std::size_t bytes = 0;
    if (layout == clblast::Layout::kRowMajor)
      require(clblast::GemmTempBufferSize<float>(layout, flag(p.a), flag(p.b), m, n, k, 0, lda, 0, ldb, 0, n, &queue, bytes));
    else
      require(clblast::GemmTempBufferSize<float>(layout, flag(p.b), flag(p.a), n, m, k, 0, ldb, 0, lda, 0, n, &queue, bytes));
    return bytes;
  }
};

template <class Work>
double seconds(Device& device, const Work& work) {
  device.finish();
  const auto begin = std::chrono::steady_clock::now();
  work();
  device.finish();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void compare(Device& device, const GemmProblem& p, int pairs) {
  std::array<opencl::Buffer, 3> buffers;
  std::array<Region, 3> regions;
  const std::array elements{p.m * p.k, p.k * p.n, p.m * p.n};
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    buffers[i] = device.memory().allocate(4 * elements[i], "a matrix");
    regions[i] = {buffers[i].block(), 0, 4 * elements[i]};
    constexpr std::array<std::byte, 4> kZero{};
    device.fill(regions[i], kZero);
  }
  const GemmOperands operands{.a = regions[0], .b = regions[1], .c = regions[2]};
  const ByHand by_hand{p};
  cl_command_queue queue = nullptr;
  device.native([&](void* q, void**) { queue = static_cast<cl_command_queue>(q); }, opencl::kNoWork);
  std::vector<double> ratios;
  for (int i = 0; i <= pairs; ++i) {
    const double other = seconds(device, [&] { by_hand.gemm(queue, operands); }), own = seconds(device, [&] { opencl::clblast_gemm(device, p, operands); });
    if (i > 0) ratios.push_back(other / own);  // the first compiles
  }
  std::ranges::sort(ratios);
  fmt::print("{:5} x {:5} x {:5} {}{}  {:5.2f} ({:.2f} to {:.2f})  {:10} bytes copied by hand, {:10} here\n", p.m, p.n, p.k, p.a == Transpose::yes ? 't' : 'n',
             p.b == Transpose::yes ? 't' : 'n', ratios[ratios.size() / 2], ratios.front(), ratios.back(),
             by_hand.copied_bytes(queue, clblast::Layout::kRowMajor), by_hand.copied_bytes(queue, clblast::Layout::kColMajor));
}

int run(const std::vector<std::string>& arguments) {
  namespace po = cli::po;
  po::options_description options("options", 110);
  options.add_options()("pairs", po::value<std::int64_t>()->default_value(9), "the median of so many counts");
  cli::add_device_options(options);
  const auto v = cli::parse("gemel_clblast", "Matrix products by CLBlast, beside its GEMM called by hand.", options, arguments);
  const auto pairs = static_cast<int>(cli::whole_number(v, "pairs", 1, 1e6));
  const auto device = Device::open(cli::device_options(v));
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{64, 64, 64}, {200, 100, 400}, {512, 512, 512}, {1024, 768, 768}, {1000, 1000, 1000}})
    for (const Transpose a : {Transpose::no, Transpose::yes})
      for (const Transpose b : {Transpose::no, Transpose::yes}) compare(*device, {.m = m, .n = n, .k = k, .a = a, .b = b}, pairs);
  return 0;
}

}  // namespace
}  // namespace gemel

int main(int count, char** values) { return gemel::benchmark_main("gemel_clblast", gemel::run, count, values); }
