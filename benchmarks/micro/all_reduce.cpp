// All-reduce against the installed MPI_Allreduce, in turn, in the thread that makes the calls:
//   mpirun -np 2 build/gemel_all_reduce
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "benchmarks/micro/benchmark_main.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "frontends/cli/options/arguments.h"
#include "parallel/collectives/collectives.h"
#include "parallel/collectives/host_reduce.h"
#include "parallel/transport/mpi_communicator.h"
#include "parallel/transport/shared_memory.h"

namespace gemel {
namespace {

using parallel::Algorithm;
using parallel::Collectives;
using parallel::Elements;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// The slowest rank's seconds for one call, of a few.
template <class Work>
double seconds_of(Collectives& collectives, int calls, const Work& work) {
  collectives.barrier();
  const double begin = now();
  for (int i = 0; i < calls; ++i) work();
  std::vector<float> took{static_cast<float>((now() - begin) / calls)};
  collectives.all_reduce(parallel::elements_of(took), parallel::Reduction::max, Algorithm::tree);
  return took[0];
}

struct Row {
  std::int64_t bytes;
  double ours, mpi, bound, barrier, least, most;  // seconds; ratios of MPI's time to ours
};

/// @param memory  what is reduced: where the others see it, as gradients are  @param spare  as long, of this rank's own
Row measured(Collectives& collectives, Elements data, std::span<std::byte> spare, int rounds) {
  const std::int64_t bytes = data.bytes();
  const int calls = static_cast<int>(std::clamp<std::int64_t>((std::int64_t{4} << 20) / std::max<std::int64_t>(bytes, 1), 1, 200));
  std::vector<double> ours, mpi, bound, barrier, ratios;
  // Two halves are read and written, in private memory: what the ranks of a machine do together, without what they wait for.
  const Elements private_a{spare.data(), data.count / 2, data.dtype}, private_b{spare.data() + bytes / 2 / 4 * 4, data.count / 2, data.dtype};
  std::byte* const halves[] = {private_a.first, private_b.first};
  for (int round = -1; round < rounds; ++round) {
    const auto measure_ours = [&] { return seconds_of(collectives, calls, [&] { collectives.all_reduce(data); }); };
    const auto measure_mpi = [&] {
      return seconds_of(collectives, calls, [&] { collectives.communicator().carrier_all_reduce(data, parallel::Reduction::sum); });
    };
    // The second one finds in the caches what the first one left there: they take turns.
    double a = 0, b = 0;
    if (round % 2 == 0)
      a = measure_ours(), b = measure_mpi();
    else
      b = measure_mpi(), a = measure_ours();
    const double c = seconds_of(collectives, calls, [&] { parallel::reduce_all({halves, halves, private_a.count, data.dtype}, parallel::Reduction::sum); });
    // What no all-reduce goes without, and the pass has none of: one barrier before it reads, one before it returns.
    const double d = seconds_of(collectives, 200, [&] { collectives.barrier(); });
    std::memset(data.first, 0, at(bytes));  // sums of sums would overflow
    if (round < 0) continue;                // the first one warms up
    ours.push_back(a);
    mpi.push_back(b);
    bound.push_back(c);
    barrier.push_back(d);
    ratios.push_back(b / a);
  }
  return {bytes, median(ours), median(mpi), median(bound), median(barrier), *std::ranges::min_element(ratios), *std::ranges::max_element(ratios)};
}

int run(const std::vector<std::string>& arguments) {
  namespace po = cli::po;
  po::options_description options("options", 110);
  auto option = options.add_options();
  option("collective", po::value<std::string>()->default_value("auto"), "auto, ring, tree, shared, hierarchical or mpi");
  option("rounds", po::value<std::int64_t>()->default_value(30), "measurements of each in turn; medians are printed");
  option("most", po::value<std::string>()->default_value("256M"), "bytes of the largest");
  const auto v = cli::parse("gemel_all_reduce", "All-reduce of float32 against MPI_Allreduce: mpirun -np 2 gemel_all_reduce.", options, arguments);
  const auto rounds = static_cast<int>(cli::whole_number(v, "rounds", 1, 1e6));
  const std::int64_t most = cli::byte_count(v, "most");
  const auto fixed = parallel::parse_algorithm(v["collective"].as<std::string>());
  if (!parallel::mpi_launch()) throw UsageError("mpirun did not start this process; accepted: mpirun -np 2 gemel_all_reduce");
  const auto communicator = parallel::mpi_communicator();
  Collectives collectives(*communicator, fixed);
  HostBytes memory;
  if (auto* shared = communicator->shared()) memory = shared->allocate(most);
  std::vector<std::byte> own(memory.first ? 0 : at(most)), spare(at(most));
  std::byte* const first = memory.first ? memory.first.get() : own.data();
  const bool prints = communicator->rank() == 0;
  if (prints)
    fmt::print("{} ranks on {}, {} (memory {})\n{:>11} {:>10} {:>10} {:>7} {:>15} {:>12} {:>7} {:>11} {:>13}\n", communicator->size(), communicator->host(0),
               parallel::to_string(collectives.choice(most).algorithm), memory.first ? "that the ranks share" : "of each rank's own", "bytes", "Gemel us",
               "MPI us", "ratio", "(least..most)", "one pass us", "of it", "barrier us", "of all three");
  for (std::int64_t bytes = 4; bytes <= most; bytes *= bytes < 4096 ? 8 : 4) {
    const int here = bytes >= (64 << 20) ? std::min(rounds, 10) : rounds;
    const Row row = measured(collectives, {first, bytes / 4, DType::float32}, spare, here);
    if (prints)
      fmt::print("{:>11} {:>10.2f} {:>10.2f} {:>7.2f} {:>15} {:>12.2f} {:>7.2f} {:>11.2f} {:>13.2f}\n", row.bytes, row.ours * 1e6, row.mpi * 1e6,
                 row.mpi / row.ours, fmt::format("({:.2f}..{:.2f})", row.least, row.most), row.bound * 1e6, row.ours / row.bound, row.barrier * 1e6,
                 row.ours / (row.bound + 2 * row.barrier));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace gemel

int main(int count, char** values) { return gemel::benchmark_main("gemel_all_reduce", gemel::run, count, values); }
