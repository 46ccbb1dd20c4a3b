// Where the gradients of ranks that are threads lie: the ranks reduce them there, without a copy.
#include "parallel/ddp/gradient_memory.h"

#include <gtest/gtest.h>

#include "frontends/nn/layers/layers.h"
#include "opencl/device/device.h"
#include "parallel/ddp/buckets.h"
#include "parallel/transport/shared_memory.h"
#include "tests/support/device/test_device.h"
#include "tests/support/ranks/communicating_ranks.h"

namespace gemel::parallel {
namespace {

TEST(DataParallelMemory, of_gradients_is_seen_by_the_other_ranks) {
  testing::run_communicating_ranks(2, [](CommunicationThread& communication) {
    Session session(opencl::Device::open({}), 3);
    GradientMemory memory(session, communication);
    if (!memory.in_place()) GTEST_SKIP() << "this device does not compute in memory that it is given";
    nn::Linear layer(300, 200);
    layer.materialise(session);
    const Values values = values_of(layer.parameters().trainable());
    ParameterSlab::pack(values, {.gradients = memory.source()});
    for (const auto& slab : slabs_of(values)) {
      std::byte* const first = memory.find(slab->gradients());
      ASSERT_NE(first, nullptr);
      communication.run([first](Collectives& c) {
        SharedGroup& group = *c.communicator().shared();
        group.barrier(first);
        EXPECT_EQ(group.of(group.rank()), first);
        EXPECT_NE(group.of(1 - group.rank()), nullptr);
        group.barrier();
      });
    }
  });
}

}  // namespace
}  // namespace gemel::parallel
