// Gradients in memory that is shared with others, as a reduction inside a machine has them: the same numbers, seen and changed by the
// host beside the device.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "engine/base/error.h"
#include "engine/device/device_access.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "engine/parameters/parameter_slab.h"
#include "frontends/graph/compile.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/optim/optimizer.h"
#include "opencl/device/device.h"
#include "tests/support/device/shared_pages.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/models/two_layers.h"

namespace gemel::testing {
namespace {

using Numbers = std::vector<double>;
using Bytes = std::vector<std::byte>;

/// Gradient descent on the sum of squares, in a session of its own.
struct SharedTraining {
  Session session{opencl::Device::open({}), 3};
  TwoLayers net{};
  std::unique_ptr<optim::Optimizer> optimizer{};

  explicit SharedTraining(const HostMemorySource& gradients = {}) {
    net.materialise(session);
    ParameterSlab::pack(values_of(net.parameters().trainable()), {.gradients = gradients});
    optimizer = optim::make("momentum", optim::all_in_one(net.parameters()));
  }
  ParameterSlab& slab() { return *optimizer->parameters()[0].value.node()->slab; }
  Values inputs() { return {session.tensor(f32({2, 3}), Numbers{1, -2, 3, 0.5, 1, -1}), optimizer->hyper(0.01)[0]}; }
  Values gradients(const Value& x) { return gradient({sum(square(net(x)))}, values_of(optimizer->parameters()), {}, {.into = optimizer->gradient_places()}); }
  Values step(const Values& in) {
    optimizer->apply_updates(gradients(in[0]), {in[1]});
    return {};
  }
};

enum class Frontend { eager, captured };

void take_steps(SharedTraining& t, Frontend frontend) {
  graph::Compiled compiled = graph::compile(t.session, [&](const Values& in) { return t.step(in); });
  for (int step = 0; step < 3; ++step) frontend == Frontend::eager ? t.step(t.inputs()) : compiled(t.inputs());
}

HostMemorySource memory_of(const SharedPages& pages) {
  return [&pages](std::int64_t bytes) {
    EXPECT_EQ(bytes, std::ssize(pages.seen()));
    return pages.given();
  };
}

constexpr std::int64_t kFourPages = 4 * 4096;  // of four parameters

TEST(DeviceSharedGradients, are_those_in_memory_of_the_devices_own_and_seen_without_a_read) {
  for (const Frontend frontend : {Frontend::eager, Frontend::captured}) {
    const SharedPages pages(kFourPages);
    SharedTraining shared(memory_of(pages)), apart;
    take_steps(shared, frontend);
    take_steps(apart, frontend);
    const HostView view = map(shared.slab().gradients().whole(), Access::read, mark(shared.session));
    view.ready().wait();
    const Bytes expected = read_bytes(apart.slab().gradients().whole());
    EXPECT_TRUE(std::ranges::equal(pages.seen(), expected));
    EXPECT_TRUE(std::ranges::any_of(expected, [](std::byte b) { return b != std::byte{}; }));
    EXPECT_EQ(read_bytes(shared.slab().parameters().whole()), read_bytes(apart.slab().parameters().whole()));
  }
}

void double_all(std::span<std::byte> bytes) {
  for (float& g : std::span(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float))) g *= 2;
}

/// Parameters after a step in which nothing but the session doubles the gradients.
Bytes after_a_doubled_step() {
  SharedTraining t;
  const Values in = t.inputs(), gradients = t.gradients(in[0]);
  Bytes doubled = read_bytes(t.slab().gradients().whole());
  double_all(doubled);
  write(t.slab().gradients().whole(), doubled);
  t.optimizer->apply_updates(gradients, {in[1]});
  return read_bytes(t.slab().parameters().whole());
}

/// Parameters after a step in which another thread doubles the gradients between their computation and the update.
/// @param bytes  where that thread finds them; none: in its view
Bytes after_a_step_doubled_beside(SharedTraining& t, std::span<std::byte> bytes = {}) {
  const Values in = t.inputs(), gradients = t.gradients(in[0]);
  const Event computed = mark(t.session);
  Fence fence = make_fence(t.session);
  wait_for(t.session, fence.event());
  t.optimizer->apply_updates(gradients, {in[1]});
  std::thread reducer([&, whole = t.slab().gradients().whole(), fence = std::move(fence)]() mutable {
    HostView view = map(whole, Access::read_write, computed);
    const auto seen = view.bytes();
    double_all(bytes.empty() ? seen : bytes);
    view.release().wait();
    fence.complete();
  });
  const Bytes parameters = read_bytes(t.slab().parameters().whole());
  reducer.join();
  return parameters;
}

TEST(DeviceSharedGradients, changed_by_another_thread_before_a_fence_are_what_the_update_uses) {
  const Bytes expected = after_a_doubled_step();
  const SharedPages pages(kFourPages);
  SharedTraining shared(memory_of(pages));
  EXPECT_EQ(after_a_step_doubled_beside(shared, pages.seen()), expected);
}

TEST(DeviceSharedGradients, in_memory_of_the_devices_own_are_changed_in_a_view) {
  const Bytes expected = after_a_doubled_step();
  SharedTraining own;
  EXPECT_EQ(after_a_step_doubled_beside(own), expected);
}

/// As a server has it, which updates by the gradients of workers.
TEST(DeviceSharedGradients, of_another_slab_in_their_place_are_what_the_update_uses) {
  const SharedPages pages(kFourPages);
  SharedTraining t;
  const Values in = t.inputs();
  t.gradients(in[0]);
  const Bytes own = read_bytes(t.slab().gradients().whole());
  Slab other(t.session, specs_of(t.slab().parameters().parts()), "gradients of another", memory_of(pages));
  mark(t.session).wait();
  std::ranges::copy(own, pages.seen().begin());
  double_all(pages.seen());
  other = t.slab().exchange_gradients(std::move(other));
  t.optimizer->apply_updates(t.optimizer->gradient_places(), {in[1]});
  other = t.slab().exchange_gradients(std::move(other));
  EXPECT_EQ(read_bytes(t.slab().parameters().whole()), after_a_doubled_step());
  EXPECT_EQ(read_bytes(t.slab().gradients().whole()), own);
}

TEST(DeviceSharedGradients, and_parameters_in_given_memory_are_seen_and_written_by_others) {
  const SharedPages pages(kFourPages);
  Session session(opencl::Device::open({}), 3);
  TwoLayers net;
  net.materialise(session);
  const Values leaves = values_of(net.parameters().trainable());
  ParameterSlab::pack(leaves, {.parameters = memory_of(pages)});
  mark(session).wait();
  EXPECT_TRUE(std::ranges::equal(pages.seen(), read_bytes(leaves[0].node()->slab->parameters().whole())));
  EXPECT_TRUE(std::ranges::any_of(pages.seen(), [](std::byte b) { return b != std::byte{}; }));
  double_all(pages.seen());
  EXPECT_TRUE(std::ranges::equal(pages.seen(), read_bytes(leaves[0].node()->slab->parameters().whole())));
}

TEST(DeviceSharedGradients, in_memory_that_does_not_fit_are_refused) {
  const SharedPages pages(4096);
  const Values leaves{leaf(full(test_session(), f32({1025}), 1))};
  EXPECT_EQ(message_of<UsageError>([&] { ParameterSlab::pack(leaves, {.gradients = [&](std::int64_t) { return pages.given(); }}); }),
            "host memory: 4096 bytes are given for gradients; accepted: 8192 or more");
  ParameterSlab::pack(leaves);
  EXPECT_EQ(leaves[0].node()->slab->gradients().pages(), 2) << "nothing had moved";
}

TEST(DeviceSharedGradients, are_not_for_the_reference_session) {
  const auto session = Session::reference();
  const Value a = leaf(full(*session, f32({2}), 1));
  const SharedPages pages(4096);
  EXPECT_EQ(message_of<UsageError>([&] { ParameterSlab::pack(Values{a}, {.gradients = [&](std::int64_t) { return pages.given(); }}); }),
            "session: the reference session has no device");
}

}  // namespace
}  // namespace gemel::testing
