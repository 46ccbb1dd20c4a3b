#include "engine/base/usage/power_meter.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "engine/base/files/file.h"

namespace gemel {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  if (!(in >> value)) return {};
  return value;
}

std::string word_in(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

constexpr double kJoule = 1e-6;  // of the counters' microjoules

}  // namespace

PowerMeter::PowerMeter(const Sources& sources) : cards_(sources.nvml) {
  add_packages(sources.powercap);
  add_cards();
}

std::vector<std::string> PowerMeter::parts() const {
  std::vector<std::string> out;
  for (const Package& package : packages_) out.push_back(package.name);
  for (const CardEnergy& energy : card_energies_) out.push_back(cards_.name(energy.card));
  return out;
}

std::string PowerMeter::why_none() const {
  if (!packages_.empty() || !card_energies_.empty()) return "";
  return why_no_packages_ + "; " + cards_.why_none() + "; accepted: a processor whose RAPL counters Linux shows and this user may read, or an NVIDIA card";
}

/// Packages alone: their zones below ("core", "dram") are parts of them or are not there everywhere, and "psys" has them all once more.
void PowerMeter::add_packages(const fs::path& powercap) {
  std::error_code error;
  std::vector<fs::path> zones;
  for (fs::directory_iterator it(powercap, error); it != fs::directory_iterator(); it.increment(error)) zones.push_back(it->path());
  if (error) why_no_packages_ = powercap.string() + ": " + error.message();
  std::ranges::sort(zones);
  for (const fs::path& zone : zones) {
    const std::string file = zone.filename().string(), name = word_in(zone / "name");
    if (!file.starts_with("intel-rapl:") || std::ranges::count(file, ':') != 1 || !name.starts_with("package")) continue;
    errno = 0;
    const auto now = number_in(zone / "energy_uj");
    if (!now) {
      why_no_packages_ = (zone / "energy_uj").string() + ": " + system_message(errno ? errno : EINVAL);
      continue;
    }
    packages_.push_back({name, zone / "energy_uj", *now, number_in(zone / "max_energy_range_uj").value_or(0)});
  }
  if (!packages_.empty())
    why_no_packages_.clear();  // a zone that cannot be read lies beside one that can
  else if (why_no_packages_.empty())
    why_no_packages_ = powercap.string() + ": it has no package of a processor";
}

void PowerMeter::add_cards() {
  for (int card = 0; card < cards_.count(); ++card) {
    const auto counted = cards_.joules(card);
    if (!counted && !cards_.watts(card)) continue;
    card_energies_.push_back({card, counted, steady_ns()});
  }
}

double PowerMeter::take(Package& package) const {
  const auto now = number_in(package.counter);
  if (!now) return 0;
  const std::uint64_t before = std::exchange(package.last, *now);
  return kJoule * static_cast<double>(*now >= before ? *now - before : *now + package.range - std::min(before, package.range));
}

double PowerMeter::take(CardEnergy& energy) const {
  const std::int64_t now_ns = steady_ns(), before_ns = std::exchange(energy.last_ns, now_ns);
  if (!energy.last) return cards_.watts(energy.card).value_or(0) * 1e-9 * static_cast<double>(now_ns - before_ns);
  const double now = cards_.joules(energy.card).value_or(*energy.last);
  return now - *std::exchange(energy.last, now);
}

std::optional<double> PowerMeter::joules() {
  if (packages_.empty() && card_energies_.empty()) return {};
  for (Package& package : packages_) joules_ += take(package);
  for (CardEnergy& energy : card_energies_) joules_ += take(energy);
  return joules_;
}

}  // namespace gemel
