// What ranks hold in the tests of collectives, its reduction made serially, and what every memory that ranks share does.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/base/dtype_conversion.h"
#include "engine/base/numbers.h"
#include "engine/base/philox.h"
#include "parallel/collectives/collectives.h"
#include "parallel/transport/shared_memory.h"

namespace gemel::testing {

using Bytes = std::vector<std::byte>;
using Numbers = std::vector<double>;

/// Numbers of a rank, near 1 so that products of them stay so, and of so many bits that sums are rounded; whole ones for integers.
inline Bytes contents(DType dtype, int rank, std::int64_t count) {
  PhiloxStream stream(17, static_cast<std::uint32_t>(rank));
  Numbers numbers(at(count));
  for (double& x : numbers) x = is_integer(dtype) ? 1 + stream.below(7) : 0.5 + stream.below(1u << 24) / 0x1p24;
  return bytes_from_numbers(dtype, numbers);
}

inline parallel::Elements elements_in(Bytes& bytes, DType dtype) {
  return {bytes.data(), std::ssize(bytes) / static_cast<std::int64_t>(size_of(dtype)), dtype};
}

/// The reduction in double, of what each rank holds.
inline Numbers serial(DType dtype, int ranks, std::int64_t count, parallel::Reduction reduction) {
  using parallel::Reduction;
  Numbers out = numbers_from_bytes(dtype, contents(dtype, 0, count));
  for (int r = 1; r < ranks; ++r) {
    const Numbers more = numbers_from_bytes(dtype, contents(dtype, r, count));
    for (std::size_t i = 0; i < out.size(); ++i) switch (reduction) {
        case Reduction::sum:
        case Reduction::mean:
          out[i] += more[i];
          break;
        case Reduction::min:
          out[i] = std::min(out[i], more[i]);
          break;
        case Reduction::max:
          out[i] = std::max(out[i], more[i]);
          break;
        case Reduction::product:
          out[i] *= more[i];
          break;
        case Reduction::bit_and:
          out[i] = static_cast<double>(static_cast<std::int64_t>(out[i]) & static_cast<std::int64_t>(more[i]));
          break;
      }
  }
  if (reduction == Reduction::mean)
    for (double& x : out) x = is_integer(dtype) ? std::trunc(x / ranks) : x / ranks;
  return out;
}

/// A rounding for each message that an element may pass, and one for the mean: of the numbers' own size.
inline double tolerance(DType dtype, int ranks) { return 2.0 * ranks * unit_roundoff(dtype); }

inline void expect_near_all(const Numbers& actual, const Numbers& expected, double relative) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {  // a million of them: the macro is for those that are wrong
    const bool near = std::abs(actual[i] - expected[i]) <= relative * std::abs(expected[i]);
    if (!near) FAIL() << "element " << i << " is " << actual[i] << ", not " << expected[i];
  }
}

/// Of the ranks of one machine: what they allocate together is reduced where it lies.
inline void expect_reduced_in_place(parallel::Communicator& c) {
  constexpr std::int64_t kCount = 1 << 18;
  const HostBytes memory = c.shared()->allocate(kCount * 4);
  ASSERT_GE(memory.bytes, kCount * 4);
  const Bytes mine = contents(DType::float32, c.rank(), kCount);
  std::memcpy(memory.first.get(), mine.data(), mine.size());
  c.shared()->barrier(memory.first.get() + 8);
  for (int r = 0; r < c.size(); ++r) {
    const std::byte* const theirs = c.shared()->of(r);
    ASSERT_NE(theirs, nullptr);
    EXPECT_EQ(std::memcmp(theirs, contents(DType::float32, r, 4).data() + 8, 8), 0);
  }
  c.shared()->barrier();
  parallel::Collectives(c).all_reduce({memory.first.get(), kCount, DType::float32});
  expect_near_all(numbers_from_bytes(DType::float32, {memory.first.get(), at(kCount * 4)}), serial(DType::float32, c.size(), kCount, parallel::Reduction::sum),
                  tolerance(DType::float32, c.size()));
}

/// Others may not write into memory that its rank frees without asking them.
inline void expect_own_memory_to_be_unseen(parallel::Communicator& c) {
  const Bytes own(1 << 20);
  c.shared()->barrier(own.data());
  for (int r = 0; r < c.size(); ++r) EXPECT_EQ(c.shared()->of(r), nullptr);
  c.shared()->barrier();
}

/// What one rank still has, all find; what none has is freed when they allocate again.
inline void expect_freed_by_the_last_owner(parallel::Communicator& c) {
  parallel::SharedGroup& group = *c.shared();
  HostBytes first = group.allocate(4096);
  const std::weak_ptr<std::byte> weak = first.first;
  std::memset(first.first.get(), 7, 4096);
  group.barrier();
  if (c.rank() != 0) first = {};
  group.barrier();
  const HostBytes second = group.allocate(8192);
  EXPECT_FALSE(weak.expired());
  group.barrier(c.rank() == 0 ? first.first.get() : second.first.get());
  ASSERT_NE(group.of(0), nullptr);
  EXPECT_EQ(*group.of(0), std::byte{7});
  EXPECT_EQ(*group.of(1), std::byte{0});
  group.barrier();
  first = {};
  group.barrier();
  const HostBytes third = group.allocate(4096);
  EXPECT_TRUE(weak.expired());
  group.barrier(third.first.get());
  EXPECT_EQ(group.of(c.rank()), third.first.get());
  EXPECT_EQ(*group.of(1), std::byte{0});
  group.barrier();
}

}  // namespace gemel::testing
