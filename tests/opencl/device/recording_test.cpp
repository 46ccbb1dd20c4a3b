// Launches that were recorded: with other memory, with operands that coincide, and where they cannot be recorded.
#include "opencl/device/recording.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "engine/core/session.h"
#include "engine/ops/ops.h"
#include "opencl/memory/block.h"
#include "tests/support/device/test_device.h"

namespace gemel::testing {
namespace {

using opencl::Buffer;
using opencl::Device;
using opencl::Recording;
using opencl::Region;

opencl::Kernel& sum_kernel(Device& device) {
  return device.generated_kernel(
      "recording test",
      [] {
        return std::string(
            "__kernel void sum(__global const int* x, __global const int* y, __global int* z, const int more) {\n"
            "  const size_t i = get_global_id(0);\n"
            "  z[i] = x[i] + y[i] + more;\n"
            "}\n");
      },
      "sum");
}

constexpr std::int64_t kInts = 64, kBytes = kInts * 4;

class LaunchRecording : public ::testing::Test {
 protected:
  Buffer filled(std::int32_t value) {
    const std::vector<std::int32_t> values(kInts, value);
    Buffer buffer = device.memory().allocate(kBytes, "a test");
    device.write(whole(buffer), std::as_bytes(std::span(values)));
    return buffer;
  }
  std::vector<std::int32_t> ints(const Region& region) {
    std::vector<std::int32_t> out(static_cast<std::size_t>(region.bytes / 4));
    device.read(region, std::as_writable_bytes(std::span(out)));
    return out;
  }
  std::unique_ptr<const Recording> sum(std::span<const Region> operands, std::int32_t more) {
    return Recording::make(device, operands, [more](Device& d, std::span<const Region> o) {
      d.run(sum_kernel(d), opencl::range1(kInts), {o[0], o[1], o[2], more});
    });
  }
  Device& device = test_device();
};

TEST_F(LaunchRecording, nothing_runs_before_it_is_replayed_and_then_on_the_operands_given) {
  const Buffer one = filled(1), two = filled(2), z = filled(0), other = filled(40);
  const auto recording = sum(std::array{whole(one), whole(two), whole(z)}, 100);
  EXPECT_EQ(ints(whole(z)), std::vector<std::int32_t>(kInts, 0));
  device.replay(*recording, std::array{whole(one), whole(two), whole(z)});
  EXPECT_EQ(ints(whole(z)), std::vector<std::int32_t>(kInts, 103));
  device.replay(*recording, std::array{whole(other), whole(two), whole(one)});
  EXPECT_EQ(ints(whole(one)), std::vector<std::int32_t>(kInts, 142));
  EXPECT_EQ(ints(whole(z)), std::vector<std::int32_t>(kInts, 103)) << "not written again";
}

TEST_F(LaunchRecording, copies_fills_and_ranges_of_operands_follow_them) {
  const std::int64_t half = device.profile().base_alignment_bytes;
  const auto bytes_of = [&](std::int32_t value) {
    Buffer b = device.memory().allocate(2 * half, "a test");
    device.fill(whole(b), std::as_bytes(std::span(&value, 1)));
    return b;
  };
  const Buffer a = bytes_of(1), b = bytes_of(2), c = bytes_of(3), d = bytes_of(4);
  const auto recording = Recording::make(device, std::array{whole(a), whole(b)}, [&](Device& on, std::span<const Region> o) {
    const std::int32_t nine = 9;
    on.copy({o[0].block, o[0].offset, half}, {o[1].block, o[1].offset + half, half});
    on.fill({o[1].block, o[1].offset, half}, std::as_bytes(std::span(&nine, 1)));
  });
  device.replay(*recording, std::array{whole(c), whole(d)});
  std::vector<std::int32_t> expected(static_cast<std::size_t>(half / 2), 9);
  std::fill(expected.begin() + half / 4, expected.end(), 3);
  EXPECT_EQ(ints(whole(d)), expected);
  EXPECT_EQ(ints(whole(b)), std::vector<std::int32_t>(static_cast<std::size_t>(half / 2), 2));
}

TEST_F(LaunchRecording, memory_that_is_no_operand_stays) {
  const Buffer one = filled(1), kept = filled(5), z = filled(0), other = filled(7);
  const auto recording = Recording::make(device, std::array{whole(one), whole(z)}, [&](Device& d, std::span<const Region> o) {
    d.run(sum_kernel(d), opencl::range1(kInts), {o[0], whole(kept), o[1], std::int32_t{0}});
  });
  device.replay(*recording, std::array{whole(other), whole(z)});
  EXPECT_EQ(ints(whole(z)), std::vector<std::int32_t>(kInts, 12));
}

TEST_F(LaunchRecording, it_fits_operands_that_coincide_where_its_own_did) {
  const Buffer a = filled(1), b = filled(2), c = filled(3);
  const Region x = whole(a), y = whole(b), z = whole(c);
  const auto apart = sum(std::array{x, y, z}, 0), in_place = sum(std::array{x, y, x}, 0);
  EXPECT_TRUE(apart->fits(std::array{z, x, y}));
  EXPECT_FALSE(apart->fits(std::array{x, y, x}));
  EXPECT_FALSE(apart->fits(std::array{x, x, y}));
  EXPECT_TRUE(in_place->fits(std::array{y, x, y}));
  EXPECT_FALSE(in_place->fits(std::array{x, y, z}));
  EXPECT_FALSE(in_place->fits(std::array{x, x, x}));
}

TEST_F(LaunchRecording, work_of_another_library_cannot_be_recorded) {
  bool ran = false;
  EXPECT_EQ(Recording::make(device, {}, [&](Device& d, std::span<const Region>) { d.native([&](void*, void**) { ran = true; }, "other"); }), nullptr);
  EXPECT_FALSE(ran);
}

TEST_F(LaunchRecording, a_range_smaller_than_its_buffer_is_a_memory_object_of_its_own_also_at_the_front) {
  const Buffer buffer = device.memory().allocate(1000, "a test");  // in a block of 1 024 bytes
  EXPECT_EQ(opencl::memory_of(whole(buffer)), buffer.block()->memory.get());
  EXPECT_NE(opencl::memory_of({buffer.block(), 0, 512}), buffer.block()->memory.get());
  EXPECT_EQ(opencl::memory_of({buffer.block(), 0, 512}), opencl::memory_of({buffer.block(), 0, 512}));
}

// The second launch of a kind is a replay of the first: with other numbers, other memory, and in place.
TEST(EagerLaunches, results_are_the_same_however_often_an_operator_is_applied) {
  Session& session = test_session();
  const std::vector<double> ramp{1, 2, 3, 4, 5, 6};
  for (double first : {10., 20., 30.}) {
    const Value a = full(session, f32({2, 3}), first), b = session.tensor(f32({2, 3}), ramp);
    std::vector<double> sums, doubles;
    for (double r : ramp) sums.push_back(first + r), doubles.push_back(2 * r);
    EXPECT_EQ(read(add(a, b)), sums);
    EXPECT_EQ(read(add(b, b)), doubles) << "one operand twice";
    EXPECT_EQ(read(add(full(session, f32({2, 3}), first), b)), sums) << "in place";
    EXPECT_EQ(read(b), ramp);
  }
}

TEST(EagerLaunches, the_same_problem_is_prepared_once_wherever_it_stands) {
  Interpreter& interpreter = test_session().interpreter();
  const Specs pair{f32({2, 3}), f32({2, 3})}, other{f32({3, 2}), f32({3, 2})};
  const auto prepared = interpreter.prepare(add_def(), {}, pair, {pair[0]});
  EXPECT_NE(prepared, nullptr);
  EXPECT_EQ(interpreter.prepare(add_def(), {}, pair, {pair[0]}), prepared);
  EXPECT_NE(interpreter.prepare(add_def(), {}, other, {other[0]}), prepared);
  EXPECT_NE(interpreter.prepare(multiply_def(), {}, pair, {pair[0]}), prepared);
}

TEST(EagerLaunches, zeros_of_two_signs_are_two_and_nan_is_one) {
  Session& session = test_session();
  for (int again = 0; again < 2; ++again) {
    EXPECT_FALSE(std::signbit(read(full(session, f32({7}), 0.0))[0]));
    EXPECT_TRUE(std::signbit(read(full(session, f32({7}), -0.0))[0]));
  }
  const auto prepared = [&] {
    return session.interpreter().prepare(full_def(), {{"shape", Shape{7}}, {"dtype", DType::float32}, {"value", std::nan("")}}, {}, {f32({7})});
  };
  EXPECT_EQ(prepared(), prepared());
}

TEST(EagerLaunches, attributes_and_shapes_tell_launches_apart) {
  Session& session = test_session();
  const Value x = session.tensor(f32({2, 3}), std::vector<double>{1, 2, 3, 4, 5, 6});
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(read(sum(x, {0})), (std::vector<double>{5, 7, 9}));
    EXPECT_EQ(read(sum(x, {1})), (std::vector<double>{6, 15}));
    EXPECT_EQ(read(sum(reshape(x, Shape{3, 2}), {0})), (std::vector<double>{9, 12}));
    EXPECT_EQ(read(clamp(x, 2, 3))[0], 2);
    EXPECT_EQ(read(clamp(x, 3, 4))[0], 3);
  }
}

}  // namespace
}  // namespace gemel::testing
