#include "frontends/cli/doctor/health_check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string_view>

namespace gemel::cli {

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 5> kUnits{"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit > 0 && bytes < 100 && bytes != std::floor(bytes) ? 1 : 0, kUnits[unit]);
}

std::string as_root(const std::string& command) { return ::geteuid() == 0 ? command : "sudo " + command; }

bool may_administer() {
  constexpr int kCapability = 21;  // CAP_SYS_ADMIN
  std::ifstream status("/proc/self/status");
  std::uint64_t effective = 0;
  for (std::string word; status >> word;)
    if (word == "CapEff:" && status >> std::hex >> effective) break;
  return (effective >> kCapability & 1) != 0;
}

bool is_mpi_setting(const std::string& name) { return name.starts_with("OMPI_MCA_") || name.starts_with("PRTE_MCA_") || name.starts_with("PMIX_MCA_"); }

std::vector<std::string> variables(const std::function<bool(const std::string& name)>& wanted) {
  std::vector<std::string> out;
  for (char** v = environ; *v; ++v) {
    const std::string name = std::string(*v).substr(0, std::string_view(*v).find('='));
    if (wanted(name)) out.push_back(name);
  }
  std::ranges::sort(out);
  return out;
}

}  // namespace gemel::cli
