// Sessions: what they keep alive, who may use them, who watches them, what ends with them, and two of them side by side.
#include "engine/core/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "engine/base/error.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/optim/optimizer.h"
#include "tests/support/device/shared_pages.h"
#include "tests/support/device/sub_devices.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"

namespace gemel::testing {
namespace {

using List = std::vector<double>;

List ramp(std::int64_t n, double scale) {
  List out(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = scale * std::sin(static_cast<double>(i + 1));
  return out;
}

/// The losses of a few steps of a lenet.
List losses(Session& session, std::uint64_t seed, int steps) {
  session.manual_seed(seed);
  const auto net = models::make("lenet", {.classes = 10, .channels = 1}, session);
  const auto optimizer = optim::make("momentum", optim::all_in_one(net->parameters()));
  const Value x = session.tensor(f32({8, 32, 32, 1}), ramp(8 * 32 * 32, 1)), labels = session.tensor(i64({8}), List{0, 1, 2, 3, 4, 5, 6, 7});
  List out;
  for (int s = 0; s < steps; ++s) {
    const Value loss = cross_entropy((*net)(x), labels);
    optimizer->apply_updates(gradient({loss}, values_of(optimizer->parameters())), optimizer->hyper(0.05));
    optimizer->advance();
    out.push_back(read(loss)[0]);
  }
  return out;
}

/// What two trainings give, each in a session and a thread of its own, is what each gives alone.
void expect_equal_side_by_side(const std::function<List()>& one, const std::function<List()>& two) {
  const List first = one(), second = two();
  EXPECT_LT(first.back(), first.front());
  EXPECT_LT(second.back(), second.front());
  EXPECT_NE(first, second);
  for (int again = 0; again < 3; ++again) {
    List beside_first, beside_second;
    std::thread a([&] { beside_first = one(); }), b([&] { beside_second = two(); });
    a.join();
    b.join();
    EXPECT_EQ(beside_first, first);
    EXPECT_EQ(beside_second, second);
  }
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

TEST(SessionThreads, a_gradient_mode_of_another_thread_is_refused_and_changes_nothing) {
  const auto session = Session::reference();
  std::string text;
  std::thread([&] { text = message_of<UsageError>([&] { const GradientMode off(*session, GradientMode::Mode::off); }); }).join();
  EXPECT_EQ(text, "session: used in a thread that did not make it; accepted: a session of its own for each thread");
  EXPECT_TRUE(session->gradients_enabled());
}

TEST(SessionEnd, makes_its_tensors_refuse_all_use) {
  auto session = Session::reference();
  const auto other = Session::reference();
  const Value x = leaf(full(*session, f32({2}), 1)), y = sum(x * 2.0), elsewhere = full(*other, f32({2}), 1);
  session.reset();
  const std::string text =
      "tensor: float32 [2] is used after its session has ended; accepted: a session that is kept as long as its tensors, or numbers that were read before";
  EXPECT_EQ(message_of<UsageError>([&] { exp(x); }), text);
  EXPECT_EQ(message_of<UsageError>([&] { read(x); }), text);
  EXPECT_EQ(message_of<UsageError>([&] { elsewhere + x; }), text);
  EXPECT_EQ(message_of<UsageError>([&] { write(x, std::vector<std::byte>(8)); }), text);
  EXPECT_THROW(gradient({y}, {x}), UsageError);
  EXPECT_THROW(version_of(x), UsageError);
  EXPECT_EQ(x.shape(), (Shape{2}));
}

TEST(SessionScopes, may_end_in_any_order) {
  const auto session = Session::reference();
  using Mode = GradientMode::Mode;
  std::optional<GradientMode> off(std::in_place, *session, Mode::off), on(std::in_place, *session, Mode::on);
  std::optional<GradientMode> off_again(std::in_place, *session, Mode::off);
  on.reset();
  EXPECT_FALSE(session->gradients_enabled());
  off.reset();
  EXPECT_FALSE(session->gradients_enabled()) << "one that is off still lives";
  off_again.reset();
  EXPECT_TRUE(session->gradients_enabled());

  std::optional<NameScope> outer(std::in_place, *session, "outer"), inner(std::in_place, *session, "inner");
  outer.reset();
  EXPECT_EQ(*session->scope(), "outer.inner");
  inner.reset();
  EXPECT_EQ(*session->scope(), "");
}

TEST(SessionScopes, may_outlive_the_session) {
  auto session = Session::reference();
  const GradientMode off(*session, GradientMode::Mode::off);
  const NameScope outer(*session, "outer"), inner(*session, "inner");
  session.reset();
}

constexpr std::size_t kOwnNumbers = 8192;

/// Rounds of a thread that has memory of its own on a device: what it writes, a copy, and what it sees of that, each in two ways.
void transfer(opencl::Device& device, int rounds) {
  const SharedPages pages(kOwnNumbers * 4);
  const opencl::Buffer from = device.memory().adopt(pages.given(), kOwnNumbers * 4, "given");
  for (int round = 1; round <= rounds; ++round) {
    const opencl::Buffer to = device.memory().allocate(kOwnNumbers * 4, "of another thread");
    const std::vector<std::int32_t> expected(kOwnNumbers, round);
    const auto written = std::as_bytes(std::span(expected));
    if (round % 2) {
      device.write(opencl::whole(from), written);
    } else {
      HostView view = device.map(opencl::whole(from), Access::write, device.mark(opencl::Queue::compute));
      std::ranges::copy(written, view.bytes().begin());
      device.wait_for(opencl::Queue::compute, view.release());
    }
    device.copy(opencl::whole(from), opencl::whole(to));
    const HostView view = device.map(opencl::whole(to), Access::read, device.mark(opencl::Queue::compute));
    ASSERT_TRUE(std::ranges::equal(view.bytes(), written)) << round;
    std::vector<std::byte> read(written.size());
    device.read(opencl::whole(from), read);
    ASSERT_TRUE(std::ranges::equal(read, written)) << round;
  }
}

TEST(SessionThreads, one_that_computes_and_one_that_transfers_and_maps_disturb_nothing) {
  Session session(shared_test_device());
  const List alone = losses(session, 1, 5);
  std::thread other([&] { transfer(session.device(), 50); });
  const List beside = losses(session, 1, 5);
  other.join();
  EXPECT_EQ(beside, alone);
}

TEST(SessionObservers, are_all_told_in_their_order_for_as_long_as_they_are_held) {
  const auto session = Session::reference();
  const Value x = full(*session, f32({2}), 1);
  std::string told;
  const auto observer = [&](char name) {
    return [&told, name](const OpDef& op, std::span<const Value>, std::span<const Value>) { told += name + op.name + " "; };
  };
  auto first = session->interpreter().observe(observer('1'));
  const auto second = session->interpreter().observe(observer('2'));
  exp(x);
  first.reset();
  negate(x);
  EXPECT_EQ(told, "1exp 2exp 2negate ");
  EXPECT_TRUE(session->interpreter().observed());
}

TEST(SessionObservers, may_let_go_of_themselves_and_of_others_while_they_are_told) {
  const auto session = Session::reference();
  const Value x = full(*session, f32({2}), 1);
  std::string told;
  std::shared_ptr<void> first, second, third;
  const auto observer = [&](char name, std::function<void()> then) {
    return session->interpreter().observe([&told, name, then = std::move(then)](const OpDef& op, std::span<const Value>, std::span<const Value>) {
      then();
      told += name + op.name + " ";
    });
  };
  first = observer('1', [&] { first.reset(); });
  second = observer('2', [&] { third.reset(); });
  third = observer('3', [] {});
  const auto fourth = observer('4', [&] {
    if (!second) return;
    second.reset();
    negate(x);  // tells those that are left, from within
  });
  exp(x);
  EXPECT_EQ(told, "1exp 2exp 4negate 4exp ");
  exp(x);
  EXPECT_EQ(told, "1exp 2exp 4negate 4exp 4exp ");
}

TEST(SessionGradients, asked_in_another_session_are_refused) {
  const auto a = Session::reference(), b = Session::reference();
  const Value x = leaf(full(*a, f32({2}), 1)), other = leaf(full(*b, f32({2}), 1));
  EXPECT_EQ(message_of<UsageError>([&] { gradient({sum(exp(x))}, {other}); }),
            "gradient: a tensor belongs to another session; accepted: outputs and inputs of one session");
}

TEST(SessionsSideBySide, on_two_parts_of_a_device_train_as_each_does_alone) {
  if (!divides(test_device())) GTEST_SKIP() << "needs a device that divides";
  const auto train = [](const char* part, std::uint64_t seed) {
    return [=] {
      Session session(opencl::Device::open({.device = part}));
      EXPECT_EQ(session.device().profile().compute_units, 1);
      return losses(session, seed, 5);
    };
  };
  expect_equal_side_by_side(train("0.0", 1), train("0.1", 2));
}

bool has_platform(std::string_view name) {
  return std::ranges::any_of(opencl::platforms(), [&](const opencl::PlatformInfo& p) { return p.name.find(name) != std::string::npos && !p.devices.empty(); });
}

TEST(SessionsSideBySide, on_drivers_of_two_makers_train_as_each_does_alone) {
  if (test_device().profile().platform != "Portable Computing Language" || !has_platform("rusticl")) GTEST_SKIP() << "needs PoCL and rusticl";
  const auto train = [](const char* platform, std::uint64_t seed) {
    return [=] {
      Session session(opencl::Device::open({.platform = platform, .device = ""}));
      return losses(session, seed, 3);
    };
  };
  expect_equal_side_by_side(train("portable", 1), train("rusticl", 2));
}

TEST(SessionsSideBySide, a_part_beyond_the_last_is_refused) {
  if (!divides(test_device())) GTEST_SKIP() << "needs a device that divides";
  const std::string text = message_of<UsageError>([] { opencl::Device::open({.device = "0.999"}); });
  EXPECT_NE(text.find("part 999"), std::string::npos) << text;
}

}  // namespace
}  // namespace gemel::testing
