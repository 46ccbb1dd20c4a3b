// Dispatch among variants of every target, need and length of loop: which is taken, and which declines.
#include "engine/device/dispatch.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/message_of.h"

namespace gemel::testing {
namespace {

using opencl::DeviceKind;
using opencl::DeviceProfile;

const DeviceProfile kCpu{.name = "a CPU", .kind = DeviceKind::cpu, .max_group_size = 4096};
const DeviceProfile kGpu{.name = "a GPU", .kind = DeviceKind::gpu, .max_group_size = 64};

OpDef computed_by(std::vector<Variant> variants) { return {.name = "op", .doc = "", .variants = std::move(variants)}; }
std::string chosen(const OpDef& op, const DeviceProfile& profile, std::span<const Refused> refused = {}) {
  return choose({op, {}, {}, {}}, profile, refused).name;
}
int high(const Problem&, const DeviceProfile&) { return 9; }

TEST(Dispatch, a_variant_for_the_device_comes_before_those_for_others) {
  const OpDef op =
      computed_by({{.name = "chunks", .target = Target::cpu, .rank = high}, {.name = "groups", .target = Target::gpu, .rank = high}, {.name = "items"}});
  EXPECT_EQ(chosen(op, kCpu), "chunks");
  EXPECT_EQ(chosen(op, kGpu), "groups");
  const Refused of_cpu[] = {{&op.variants[0], "its compiler crashes"}}, of_both[] = {of_cpu[0], {&op.variants[2], "its compiler crashes"}};
  EXPECT_EQ(chosen(op, kCpu, of_cpu), "items") << "the rank of one for others does not count";
  EXPECT_EQ(chosen(op, kCpu, of_both), "groups") << "rather than none";
}

TEST(Dispatch, the_first_among_equals_is_taken) {
  const OpDef op = computed_by({{.name = "first"}, {.name = "second", .target = Target::cpu}, {.name = "third", .rank = high}});
  EXPECT_EQ(chosen(op, kCpu), "third");
  EXPECT_EQ(chosen(computed_by({op.variants[0], op.variants[1]}), kCpu), "first");
}

TEST(Dispatch, what_the_user_asked_for_comes_before_ranks_where_it_can_compute) {
  const OpDef op = computed_by({{.name = "library", .needs = {.group_size = 256}}, {.name = "own", .rank = high}, {.name = "other"}});
  DeviceProfile profile = kCpu;
  profile.preferences.wanted = "library";
  EXPECT_EQ(chosen(op, profile), "library");
  EXPECT_STREQ(declines(op.variants[1], {op, {}, {}, {}}, profile), "another was asked for");
  profile.max_group_size = 64;
  EXPECT_EQ(chosen(op, profile), "own") << "the library cannot";
  profile.preferences = {.unwanted = "own"};
  EXPECT_EQ(chosen(op, profile), "other");
}

TEST(Dispatch, what_a_device_lacks_is_told) {
  const OpDef op = computed_by({{.name = "groups", .needs = {.group_size = 256}}, {.name = "tiles", .target = Target::cpu, .needs = {.private_blocks = true}}});
  EXPECT_EQ(chosen(op, kCpu), "groups");
  EXPECT_EQ(message_of<DeviceError>([&] { chosen(op, kGpu); }),
            "op: no kernel for  runs on a GPU; groups: the device's work-groups are too small; tiles: its blocks exceed a work-item's private memory");
}

TEST(Dispatch, loops_are_short_on_an_emulator) {
  constexpr auto declines_none = [](const Problem&, const DeviceProfile&) -> const char* { return nullptr; };
  constexpr auto loop = [](const Problem&, const DeviceProfile&) { return std::int64_t{100}; };
  const OpDef op = computed_by({{.name = "rows", .declines = declines_none, .longest_loop = loop}, {.name = "any"}});
  DeviceProfile emulator = kCpu;
  emulator.longest_loop = 100;
  EXPECT_EQ(chosen(op, emulator), "rows");
  emulator.longest_loop = 99;
  EXPECT_EQ(chosen(op, emulator), "any");
  EXPECT_STREQ(declines(op.variants[0], {op, {}, {}, {}}, emulator), "its loops are too long for an emulator");
  EXPECT_EQ(chosen(op, kCpu), "rows");
}

}  // namespace
}  // namespace gemel::testing
