// Saving: how often the device is read, and that files are the same however tensors lie. Packing where the device refuses on the way.
#include <gtest/gtest.h>

#include <set>

#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/parameters/parameter_slab.h"
#include "frontends/graph/graph.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/state/state_dict.h"
#include "frontends/optim/optimizer.h"
#include "frontends/train/checkpoint/checkpoint.h"
#include "tests/support/device/test_device.h"
#include "tests/support/temporary_folder.h"

namespace gemel::opencl {
namespace {

/// A device that counts what the host asks of its memory, and may refuse.
class CountingDevice final : public Device {
 public:
  int reads = 0, maps = 0, copies = 0;
  int most_maps = 1'000'000, most_copies = 1'000'000;
  void read(const Region& from, std::span<std::byte> to) override {
    ++reads;
    device_.read(from, to);
  }
  HostView map(const Region& region, Access access, const Event& after) override {
    if (++maps > most_maps) throw DeviceError("no more maps");
    return device_.map(region, access, after);
  }

  const DeviceProfile& profile() const override { return device_.profile(); }
  const opencl::DeviceSettings& settings() const override { return device_.settings(); }
  Allocator& memory() override { return device_.memory(); }
  Kernel& kernel(std::string_view file, std::string_view name, std::string_view options, std::string_view preface) override {
    return device_.kernel(file, name, options, preface);
  }
  Kernel& generated_kernel(std::string_view title, const std::function<std::string()>& source, std::string_view name) override {
    return device_.generated_kernel(title, source, name);
  }
  void run(Kernel& kernel, const Range& range, std::span<const Argument> arguments) override { device_.run(kernel, range, arguments); }
  void replay(const Recording& recording, std::span<const Region> operands) override { device_.replay(recording, operands); }
  void copy(const Region& from, const Region& to) override {
    if (++copies > most_copies) throw DeviceError("no more copies");
    device_.copy(from, to);
  }
  void fill(const Region& to, std::span<const std::byte> pattern) override { device_.fill(to, pattern); }
  void write(const Region& to, std::span<const std::byte> from) override { device_.write(to, from); }
  void write(const Region& to, std::shared_ptr<const std::vector<std::byte>> from) override { device_.write(to, std::move(from)); }
  void write(const Region& to, const std::function<void(std::span<std::byte>)>& make) override { device_.write(to, make); }
  std::unique_ptr<PendingRead> read_later(std::span<const Region> from) override { return device_.read_later(from); }
  void finish() override { device_.finish(); }
  Event mark(Queue queue) override { return device_.mark(queue); }
  void wait_for(Queue queue, const Event& event) override { device_.wait_for(queue, event); }
  Fence make_fence() override { return device_.make_fence(); }
  void native(const std::function<void(void*, void**)>& enqueue, std::string_view name) override { device_.native(enqueue, name); }
  void charge(std::string_view name, std::int64_t flops, std::int64_t bytes, const std::function<void()>& enqueue) override {
    device_.charge(name, flops, bytes, enqueue);
  }
  void time_work(Timing timing) override { device_.time_work(timing); }
  std::vector<TimedWork> take_work() override { return device_.take_work(); }
  std::vector<TimedWork> take_finished_work() override { return device_.take_finished_work(); }
  std::int64_t clock_lead_ns() override { return device_.clock_lead_ns(); }

 private:
  Device& device_ = testing::test_device();
};

}  // namespace
}  // namespace gemel::opencl

namespace gemel::testing {
namespace {

using opencl::CountingDevice;

struct SavedNet : nn::Module {
  nn::Linear& first = add<nn::Linear>("first", 3, 700);
  nn::BatchNorm2d& norm = add<nn::BatchNorm2d>("norm", 700);
  nn::Linear& second = add<nn::Linear>("second", 700, 2);
};

class DeviceSaving : public ::testing::Test {
 protected:
  DeviceSaving() { net.materialise(session); }
  std::string saved(const nn::Module& module) {
    nn::save_weights(module, folder.path() / "weights.safetensors");
    return read_text(folder.path() / "weights.safetensors");
  }
  /// Reads of the device and maps in what `f` does.
  template <class F>
  std::pair<int, int> asked_in(F f) {
    device->reads = device->maps = 0;
    f();
    return {device->reads, device->maps};
  }
  TemporaryFolder folder;
  std::shared_ptr<CountingDevice> device = std::make_shared<CountingDevice>();
  Session session{device};
  SavedNet net;
};

constexpr int kBuffers = 3;

TEST_F(DeviceSaving, weights_in_a_slab_are_read_at_once_and_written_as_they_were) {
  std::string loose, part;
  EXPECT_EQ(asked_in([&] { loose = saved(net); }), std::pair(6 + kBuffers, 0));
  part = saved(net.second);
  const auto adam = optim::make("adam", optim::all_in_one(net.parameters()));
  std::string packed;
  EXPECT_EQ(asked_in([&] { packed = saved(net); }), std::pair(1 + kBuffers, 1));
  EXPECT_EQ(packed, loose);
  EXPECT_EQ(saved(net.second), part) << "a range of the slab";
}

TEST_F(DeviceSaving, a_checkpoint_reads_each_slab_once) {
  const auto adam = optim::make("adam", optim::all_in_one(net.parameters()));
  Values gradients;
  for (const NamedValue& p : adam->parameters()) gradients.push_back(p.value.detached() * 0.5);
  adam->step(std::move(gradients), 0.1);
  train::CheckpointFolder checkpoints = train::begin_in(folder.path());
  EXPECT_EQ(asked_in([&] { train::save_checkpoint(checkpoints, net, *adam, {.step = 1}, {}); }), std::pair(3 + kBuffers, 3));
  const SafetensorsFile file(folder.path() / "checkpoint-1.safetensors");
  EXPECT_EQ(file.tensors().size(), 6u + kBuffers + 2 * 6);
  for (const NamedValue& slot : adam->state()) {
    const NamedTensor* found = file.find("optimizer." + slot.name);
    ASSERT_TRUE(found) << slot.name;
    EXPECT_EQ(std::vector<std::byte>(found->data.begin(), found->data.end()), read_bytes(slot.value)) << slot.name;
  }
}

TEST_F(DeviceSaving, a_graphs_variables_are_read_by_slabs) {
  graph::Graph graph(session);
  graph.add(net.parameters());
  const auto path = folder.path() / "variables.safetensors";
  graph.save_variables(path);
  const std::string loose = read_text(path);
  const auto adam = optim::make("adam", optim::all_in_one(net.parameters()));
  EXPECT_EQ(asked_in([&] { graph.save_variables(path); }), std::pair(1 + kBuffers, 1));
  EXPECT_EQ(read_text(path), loose);
}

TEST_F(DeviceSaving, leaves_whose_packing_the_device_refused_are_good_to_use_and_to_pack_again) {
  const Values leaves = values_of(net.parameters().trainable());
  const std::string loose = saved(net);
  const auto slabs = [&] {
    std::set<ParameterSlab*> out;
    for (const Value& v : leaves) out.insert(v.node()->slab.get());
    return out;
  };
  device->most_maps = 0;
  EXPECT_THROW(ParameterSlab::pack(leaves), DeviceError);
  EXPECT_EQ(slabs(), std::set<ParameterSlab*>{nullptr});
  device->most_maps = 1'000'000;
  device->most_copies = device->copies + 2;
  EXPECT_THROW(ParameterSlab::pack(leaves), DeviceError);
  EXPECT_EQ(slabs().size(), 2u) << "two leaves are in theirs";
  EXPECT_EQ(saved(net), loose);
  device->most_copies = 1'000'000;
  ParameterSlab::pack(leaves);
  EXPECT_FALSE(slabs().contains(nullptr));
  EXPECT_EQ(saved(net), loose);
}

}  // namespace
}  // namespace gemel::testing
