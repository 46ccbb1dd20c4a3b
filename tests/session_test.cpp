// Sessions: what they keep alive, who may use them, who watches them, and two of them side by side.
#include "engine/session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "engine/autograd.h"
#include "engine/base/error.h"
#include "engine/ops/ops.h"
#include "tests/message_of.h"
#include "tests/test_device.h"

namespace gemel::testing {
namespace {

using List = std::vector<double>;

List ramp(std::int64_t n, double scale) {
  List out(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = scale * std::sin(static_cast<double>(i + 1));
  return out;
}

/// The losses of a few steps of a small classifier, whose weights depend on `scale`.
List losses(Session& session, double scale, int steps) {
  const Value x = session.tensor(f32({8, 6, 6, 2}), ramp(8 * 6 * 6 * 2, 1)), labels = session.tensor(i64({8}), List{0, 1, 2, 0, 1, 2, 0, 1});
  Values w{leaf(session.tensor(f32({3, 3, 2, 4}), ramp(3 * 3 * 2 * 4, scale))), leaf(session.tensor(f32({6 * 6 * 4, 3}), ramp(6 * 6 * 4 * 3, scale)))};
  List out;
  for (int s = 0; s < steps; ++s) {
    const Value hidden = relu(conv2d(x, w[0], {.padding = {1, 1}}));
    const Value loss = cross_entropy(matmul(reshape(hidden, Shape{8, 6 * 6 * 4}), w[1]), labels);
    const Values g = gradient({loss}, w);
    const GradientMode off(session, GradientMode::Mode::off);
    for (std::size_t i = 0; i < w.size(); ++i) assign(w[i], w[i] - g[i] * 0.1);
    out.push_back(read(loss)[0]);
  }
  return out;
}

TEST(SessionOnADevice, keeps_its_device_alive) {
  auto device = opencl::Device::open({});
  const std::weak_ptr<opencl::Device> watched = device;
  {
    Session session(std::move(device));
    EXPECT_FALSE(watched.expired());
    EXPECT_EQ(read(full(session, f32({2}), 3)), (List{3, 3}));
  }
  EXPECT_TRUE(watched.expired());
}

TEST(SessionThreads, another_thread_is_told_that_a_session_is_not_its_own) {
  const auto session = Session::reference();
  const Value x = full(*session, f32({2}), 1);
  std::string text;
  std::thread([&] { text = message_of<UsageError>([&] { exp(x); }); }).join();
  EXPECT_EQ(text, "session: used in a thread that did not make it; accepted: a session of its own for each thread");
}

TEST(SessionObservers, are_all_told_in_their_order_for_as_long_as_they_are_held) {
  const auto session = Session::reference();
  const Value x = full(*session, f32({2}), 1);
  std::string told;
  const auto observer = [&](char name) { return [&told, name](const OpDef& op, std::span<const Value>, std::span<const Value>) { told += name + op.name + " "; }; };
  auto first = session->interpreter().observe(observer('1'));
  const auto second = session->interpreter().observe(observer('2'));
  exp(x);
  first.reset();
  negate(x);
  EXPECT_EQ(told, "1exp 2exp 2negate ");
  EXPECT_TRUE(session->interpreter().observed());
}

TEST(SessionGradients, asked_in_another_session_are_refused) {
  const auto a = Session::reference(), b = Session::reference();
  const Value x = leaf(full(*a, f32({2}), 1)), other = leaf(full(*b, f32({2}), 1));
  EXPECT_EQ(message_of<UsageError>([&] { gradient({sum(exp(x))}, {other}); }),
            "gradient: a tensor belongs to another session; accepted: outputs and inputs of one session");
}

bool divides(const opencl::DeviceProfile& profile) { return profile.platform == "Portable Computing Language" && profile.compute_units >= 2; }

TEST(SessionsSideBySide, on_two_parts_of_a_device_train_as_each_does_alone) {
  if (!divides(test_device().profile())) GTEST_SKIP() << "needs a device that divides";
  const auto train = [](const char* part, double scale) {
    Session session(opencl::Device::open({.device = part}));
    EXPECT_EQ(session.device().profile().compute_units, 1);
    return losses(session, scale, 5);
  };
  const List first = train("0.0", 0.1), second = train("0.1", 0.2);
  EXPECT_LT(first.back(), first.front());
  EXPECT_NE(first, second);
  for (int again = 0; again < 3; ++again) {
    List beside_first, beside_second;
    std::thread one([&] { beside_first = train("0.0", 0.1); }), two([&] { beside_second = train("0.1", 0.2); });
    one.join();
    two.join();
    EXPECT_EQ(beside_first, first);
    EXPECT_EQ(beside_second, second);
  }
}

TEST(SessionsSideBySide, a_part_beyond_the_last_is_refused) {
  if (!divides(test_device().profile())) GTEST_SKIP() << "needs a device that divides";
  const std::string text = message_of<DeviceError>([] { opencl::Device::open({.device = "0.999"}); });
  EXPECT_NE(text.find("part 999"), std::string::npos) << text;
}

}  // namespace
}  // namespace gemel::testing
