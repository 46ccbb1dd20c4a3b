// PowerMeter: energy that this machine uses: of processor packages by RAPL's counters (Linux's powercap), and of NVIDIA's cards.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/usage/nvidia_cards.h"

namespace gemel {

class PowerMeter {
 public:
  struct Sources {
    std::filesystem::path powercap = "/sys/class/powercap";
    std::string nvml = "libnvidia-ml.so.1";
  };
  PowerMeter() : PowerMeter(Sources()) {}
  explicit PowerMeter(const Sources& sources);

  /// Joules since construction, summed over what can be measured; empty if nothing can. Counters wrap around: call it at least once a minute.
  std::optional<double> joules();
  /// What is measured: "package-0", "NVIDIA H200".
  std::vector<std::string> parts() const;
  /// Why nothing can be measured, and what would be accepted; empty if something can.
  std::string why_none() const;
  /// Why the processor's packages cannot be measured; empty if they can.
  const std::string& why_no_packages() const { return why_no_packages_; }
  const NvidiaCards& cards() const { return cards_; }

 private:
  struct Package {
    std::string name;
    std::filesystem::path counter;  // microjoules
    std::uint64_t last = 0, range = 0;
  };
  struct CardEnergy {
    int card = 0;
    std::optional<double> last;  // joules that it counts; empty: its power is integrated over time
    std::int64_t last_ns = 0;
  };
  void add_packages(const std::filesystem::path& powercap);
  void add_cards();
  double take(Package& package) const;
  double take(CardEnergy& energy) const;

  NvidiaCards cards_;
  std::vector<Package> packages_;
  std::vector<CardEnergy> card_energies_;
  std::string why_no_packages_;
  double joules_ = 0;
};

}  // namespace gemel
