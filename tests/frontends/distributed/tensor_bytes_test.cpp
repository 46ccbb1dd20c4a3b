// Running statistics of several workers of a parameter server.
#include "frontends/distributed/parameter_server/tensor_bytes.h"

#include <gtest/gtest.h>

#include <cstring>

#include "engine/core/session.h"
#include "engine/ops/ops.h"

namespace gemel::distributed {
namespace {

class TensorBytesOfStatistics : public ::testing::Test {
 protected:
  std::unique_ptr<Session> session = Session::reference();
  TensorBytes tensors{{full(*session, f32({2}), 0), full(*session, i64({1}), 0)}};
  static std::vector<std::byte> bytes(float a, float b, std::int64_t count) {
    std::vector<std::byte> out(16);
    const float floats[] = {a, b};
    std::memcpy(out.data(), floats, 8);
    std::memcpy(out.data() + 8, &count, 8);
    return out;
  }
};

TEST_F(TensorBytesOfStatistics, are_the_mean_by_weight_and_one_steps_count) {
  EXPECT_EQ(tensors.bytes(), 16);
  const auto one = bytes(1, 10, 8), two = bytes(4, 40, 8);
  const std::span<const std::byte> both[] = {one, two};
  const double weights[] = {2.0 / 3, 1.0 / 3};
  EXPECT_EQ(tensors.mean(both, weights), bytes(2, 20, 8));
  const std::vector<std::byte> tiny = bytes(1e-38f, -3.1f, 3);
  const std::span<const std::byte> alone[] = {tiny};
  const double all[] = {1.0};
  EXPECT_EQ(tensors.mean(alone, all), tiny) << "to the last bit";
}

TEST_F(TensorBytesOfStatistics, take_what_each_worker_changed) {
  std::vector<std::byte> now = bytes(5, 7, 10);
  tensors.add_change(now, bytes(1, 2, 4), bytes(1.5f, 0, 5));
  EXPECT_EQ(now, bytes(5.5f, 5, 11));
}

}  // namespace
}  // namespace gemel::distributed
