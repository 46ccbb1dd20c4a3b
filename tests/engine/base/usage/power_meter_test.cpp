// Power of made-up machines: powercap trees that are folders, and a management library of cards that do not exist.
#include "engine/base/usage/power_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "engine/base/files/file.h"
#include "tests/support/temporary_folder.h"

namespace gemel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kNoLibrary = "there-is-no-such-library.so";

class Powercap : public ::testing::Test {
 protected:
  void zone(const std::string& folder, const std::string& name, std::uint64_t microjoules, std::uint64_t range = 1'000'000'000) {
    std::filesystem::create_directories(root() / folder);
    testing::write_text(root() / folder / "name", name + "\n");
    testing::write_text(root() / folder / "max_energy_range_uj", std::to_string(range) + "\n");
    count(folder, microjoules);
  }
  void count(const std::string& folder, std::uint64_t microjoules) { testing::write_text(root() / folder / "energy_uj", std::to_string(microjoules) + "\n"); }
  PowerMeter meter() const { return PowerMeter({.powercap = root(), .nvml = kNoLibrary}); }
  std::filesystem::path root() const { return folder_.path() / "powercap"; }

 private:
  testing::TemporaryFolder folder_;
};

TEST_F(Powercap, sums_packages_and_not_what_is_a_part_of_them_or_has_them_once_more) {
  zone("intel-rapl:0", "package-0", 5'000'000);
  zone("intel-rapl:1", "package-1", 7'000'000);
  zone("intel-rapl:0:0", "core", 1);
  zone("intel-rapl:2", "psys", 1);
  zone("intel-rapl-mmio:0", "package-0", 1);
  PowerMeter power = meter();
  EXPECT_THAT(power.parts(), ElementsAre("package-0", "package-1"));
  EXPECT_EQ(power.why_none(), "");
  EXPECT_EQ(power.why_no_packages(), "");
  EXPECT_DOUBLE_EQ(power.joules().value(), 0);
  for (const char* part : {"intel-rapl:0:0", "intel-rapl:2", "intel-rapl-mmio:0"}) count(part, 900'000'000);
  count("intel-rapl:0", 6'000'000);
  count("intel-rapl:1", 9'500'000);
  EXPECT_DOUBLE_EQ(power.joules().value(), 3.5);
  EXPECT_DOUBLE_EQ(power.joules().value(), 3.5);
}

TEST_F(Powercap, a_counter_that_wraps_around_goes_on) {
  zone("intel-rapl:0", "package-0", 99'000'000, 100'000'000);
  PowerMeter power = meter();
  count("intel-rapl:0", 2'000'000);
  EXPECT_DOUBLE_EQ(power.joules().value(), 3);
  count("intel-rapl:0", 4'000'000);
  EXPECT_DOUBLE_EQ(power.joules().value(), 5);
}

TEST_F(Powercap, a_counter_that_may_not_be_read_is_named) {
  if (::geteuid() == 0) {  // who may read all: a folder in its place is as unreadable
    zone("intel-rapl:0", "package-0", 0);
    std::filesystem::remove(root() / "intel-rapl:0/energy_uj");
    std::filesystem::create_directory(root() / "intel-rapl:0/energy_uj");
  } else {
    zone("intel-rapl:0", "package-0", 0);
    std::filesystem::permissions(root() / "intel-rapl:0/energy_uj", std::filesystem::perms::none);
  }
  PowerMeter power = meter();
  EXPECT_FALSE(power.joules());
  EXPECT_THAT(power.why_none(), HasSubstr((root() / "intel-rapl:0/energy_uj").string()));
  EXPECT_THAT(power.why_none(), HasSubstr("accepted: a processor whose RAPL counters Linux shows and this user may read, or an NVIDIA card"));
}

TEST_F(Powercap, a_machine_without_counters_says_which_is_missing) {
  PowerMeter power = meter();
  EXPECT_FALSE(power.joules());
  EXPECT_THAT(power.why_none(), HasSubstr(root().string() + ": No such file or directory"));
  EXPECT_THAT(power.why_none(), HasSubstr(std::string(kNoLibrary) + " is not installed"));
  std::filesystem::create_directories(root());
  EXPECT_THAT(meter().why_none(), HasSubstr("it has no package of a processor"));
}

TEST_F(Powercap, energy_of_cards_is_counted_by_them_or_integrated) {
  PowerMeter power({.powercap = root(), .nvml = GEMEL_BINARY_DIR "/tests/made_up_nvml.so"});
  EXPECT_THAT(power.parts(), ElementsAre("New Card", "Old Card"));
  EXPECT_EQ(power.why_none(), "");
  EXPECT_THAT(power.why_no_packages(), HasSubstr("No such file or directory")) << "of a run on the processor this is not the power";
  EXPECT_EQ(power.cards().utilisation().value(), 0.9);
  const auto begin = std::chrono::steady_clock::now();
  const double before = power.joules().value();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double used = power.joules().value() - before;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_GE(used, 5 + 40 * 0.050);
  EXPECT_LE(used, 5 + 40 * seconds);
}

TEST(NvidiaCards, a_library_that_is_another_one_is_refused) {
  const NvidiaCards cards("libm.so.6");
  EXPECT_EQ(cards.count(), 0);
  EXPECT_EQ(cards.why_none(), "libm.so.6 is not NVIDIA's management library");
}

}  // namespace
}  // namespace gemel
