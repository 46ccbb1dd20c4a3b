// Horovod's cycles on ranks that are processes, whose shared memory they can only allocate together.
#include <gtest/gtest.h>

#include "engine/base/numbers.h"
#include "parallel/transport/mpi_communicator.h"
#include "tests/support/ranks/horovod_ranks.h"
#include "tests/support/ranks/under_mpirun.h"

namespace gemel::parallel::horovod {
namespace {

using namespace gemel::testing;

/// Rank 0's tensors lie behind each other, so that it packs nothing; the others have to.
void expect_sum_of_a_pair(NamedCollectives& h, std::size_t count) {
  const std::size_t gap = h.rank() == 0 ? 0 : 1;
  Floats memory(2 * count + gap, static_cast<float>(1 + h.rank()));
  const auto bytes = std::as_writable_bytes(std::span(memory));
  const auto tensor = [&](std::size_t first) {
    return Tensor{host_buffer(bytes.subspan(4 * first, 4 * count)), Shape{static_cast<std::int64_t>(count)}, DType::float32};
  };
  for (Handle& handle : h.grouped_all_reduce("pair", {{"first", tensor(0)}, {"second", tensor(count + gap)}}, {.reduction = Reduction::sum}))
    handle.synchronize();
  Floats expected(memory.size(), 6);
  if (gap) expected[count] = static_cast<float>(1 + h.rank());
  EXPECT_EQ(memory, expected) << "on rank " << h.rank();
}

TEST(MpiHorovod, on_ranks) {
  if (!mpi_launch()) GTEST_SKIP() << "for packs_on_some_ranks_only to start under mpirun";
  CommunicationThread communication([] { return mpi_communicator(); });
  NamedCollectives h(communication, quick());
  ASSERT_EQ(h.size(), 3);
  for (const std::size_t count : {10, 5000, 5000, 20'000}) expect_sum_of_a_pair(h, count);
  for (int step = 0; step < 2 + 2 * h.rank(); ++step) {  // the data of rank 2 last longest: the others pack zeros
    Floats a(at(10'000 * (step + 1)), 3.0f);
    h.all_reduce("a", tensor_of(a)).synchronize();
    EXPECT_EQ(a, Floats(a.size(), 3.0f)) << "step " << step << " on rank " << h.rank();
  }
  EXPECT_EQ(h.join().synchronize().last_joined, 2);
  for (int step = 0; step < 2; ++step) expect_sum_of_a_pair(h, 100'000);
  h.shutdown();
}

TEST(MpiHorovod, packs_on_some_ranks_only) {
  if (mpi_launch()) GTEST_SKIP() << "under mpirun on_ranks runs";
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not installed";
  expect_passed_under_mpirun("MpiHorovod.on_ranks");
}

}  // namespace
}  // namespace gemel::parallel::horovod
