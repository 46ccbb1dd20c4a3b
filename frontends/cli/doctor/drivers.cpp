// gemel doctor: OpenCL drivers, each loaded in a process of its own, their devices, and a matrix product on each device.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text/shell_quote.h"
#include "engine/core/session.h"
#include "engine/device/dispatch.h"
#include "engine/ops/catalog.h"
#include "engine/ops/ops.h"
#include "frontends/cli/doctor/health_check.h"
#include "frontends/cli/system/find_program.h"
#include "opencl/device/device.h"
#include "opencl/device/icd_loader.h"

namespace gemel::cli {
namespace {

using opencl::DriverFile;
using std::chrono::milliseconds;

constexpr milliseconds kToLoad{6000};     // a driver of many GPUs takes some seconds
constexpr milliseconds kToCompute{8000};  // with its kernels compiled

std::string text_of(const DriverFile& driver) {
  return fmt::format("{} ({})", driver.file.string(), driver.library.empty() ? "which names no library" : driver.library);
}

struct Variants {
  int all = 0, declined = 0;
  std::map<std::string, std::vector<std::string>> why;  // reason -> "operator/variant, variant"
};

/// Of each operator that has a choice, the variants that decline all its samples for one and the same reason, which is then the device's.
Variants variants_of(const opencl::DeviceProfile& profile) {
  Variants out;
  for (const OpDef* op : catalog()) {
    if (!op->samples || op->variants.size() < 2) continue;
    const std::vector<Sample> samples = op->samples();
    std::map<std::string, std::vector<std::string>> declined;
    for (const Variant& v : op->variants) {
      std::set<std::string> why;
      for (const Sample& s : samples) {
        const Specs specs = op->infer(s.inputs, s.attributes);
        const char* reason = declines(v, {*op, s.attributes, s.inputs, specs}, profile);
        why.insert(reason ? reason : "");
      }
      ++out.all;
      if (why.size() == 1 && !why.begin()->empty()) ++out.declined, declined[*why.begin()].emplace_back(v.name);
    }
    for (const auto& [reason, names] : declined) out.why[reason].push_back(fmt::format("{}/{}", op->name, fmt::join(names, ",")));
  }
  return out;
}

Finding variants_on(const opencl::DeviceProfile& profile) {
  const Variants variants = variants_of(profile);
  std::string text = fmt::format("{} of {} variants of kernels", variants.all - variants.declined, variants.all);
  for (const auto& [reason, names] : variants.why) text += fmt::format("; {}: {}", fmt::join(names, ", "), reason);
  return {Health::ok, text};
}

/// Drivers may end a text with spaces.
std::string trimmed(const std::string& text) { return text.substr(0, text.find_last_not_of(' ') + 1); }

Finding facts_of(const opencl::PlatformInfo& platform, std::size_t device) {
  const opencl::DeviceProfile& p = platform.devices[device];
  const std::string text = fmt::format("{}, {}; {}, driver {}; {}, {} unit{} of {} lanes, {}{}", p.name, platform.name, trimmed(p.version), trimmed(p.driver),
                                       to_string(p.kind), p.compute_units, p.compute_units == 1 ? "" : "s", p.simd_width,
                                       bytes_text(static_cast<double>(p.global_bytes)), p.is_emulator ? "; an emulator, taken only where it is asked for" : "");
  if (platform.problems[device].empty()) return {Health::ok, text};
  return {Health::odd, text + "; cannot be used: " + platform.problems[device], "another driver for it, or a newer one"};
}

/// Small whole numbers: float32 holds every sum exactly, in whatever order.
double element(std::int64_t i) { return static_cast<double>(i * 7 % 11 - 5); }

/// On the device and on the host. @return how many elements differ
int wrong_elements(const std::shared_ptr<opencl::Device>& device) {
  constexpr std::int64_t kM = 65, kK = 130, kN = 97;
  std::vector<double> a, b;
  for (std::int64_t i = 0; i < kM * kK; ++i) a.push_back(element(i));
  for (std::int64_t i = 0; i < kK * kN; ++i) b.push_back(element(3 * i + 1));
  Session session(device);
  const std::vector<double> y = read(matmul(session.tensor(f32({kM, kK}), a), session.tensor(f32({kK, kN}), b)));
  int wrong = 0;
  for (std::int64_t i = 0; i < kM * kN; ++i) {
    double sum = 0;
    for (std::int64_t k = 0; k < kK; ++k) sum += a[static_cast<std::size_t>(i / kN * kK + k)] * b[static_cast<std::size_t>(k * kN + i % kN)];
    wrong += y[static_cast<std::size_t>(i)] != sum;
  }
  return wrong;
}

Finding product_on(const opencl::DeviceOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto device = opencl::Device::open(options);
  if (const int wrong = wrong_elements(device); wrong > 0)
    return {Health::wrong, fmt::format("a product of matrices has {} wrong elements", wrong),
            "another version of this driver; --platform and --device choose another device"};
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return {Health::ok, fmt::format("a product of matrices is right; {:.1f} s with its kernels", seconds.count())};
}

/// Whether the user asks for this platform by name.
bool is_asked_for(const opencl::PlatformInfo& platform) {
  std::string wanted = opencl::from_environment("GEMEL_PLATFORM"), name = platform.name;
  for (std::string* text : {&wanted, &name}) std::ranges::transform(*text, text->begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return !wanted.empty() && name.find(wanted) != std::string::npos;
}

std::string names_of(const std::vector<opencl::PlatformInfo>& platforms) {
  std::vector<std::string> out;
  for (const auto& p : platforms) {
    const char* const none = p.name == "rusticl" ? ", no device of a driver that RUSTICL_ENABLE names (radeonsi: AMD, iris: Intel)" : ", no device";
    out.push_back(fmt::format("{}, {}{}", p.name, trimmed(p.version), p.devices.empty() ? none : ""));
  }
  return fmt::format("{}", fmt::join(out, "; "));
}

void look_at(const DriverFile& driver, Report& report) {
  report.begin(kDrivers, kToLoad);
  opencl::load_alone(driver);
  const std::vector<opencl::PlatformInfo> platforms = opencl::platforms();
  if (platforms.empty())
    return report.add({Health::odd, text_of(driver) + " shows no platform", "remove the package that it is of, or install what its library needs"});
  report.add({Health::ok, fmt::format("{}: {}", driver.file.filename().string(), names_of(platforms))});
  int number = 0;
  for (std::size_t p = 0; p < platforms.size(); ++p)
    for (std::size_t d = 0; d < platforms[p].devices.size(); ++d) {
      const std::string which = fmt::format("{}-{}", driver.file.stem().string(), number++);
      report.begin("device-" + which, Check::kLimit);
      report.add(facts_of(platforms[p], d));
      if (!platforms[p].problems[d].empty()) continue;
      report.begin("variants-" + which, Check::kLimit);
      report.add(variants_on(platforms[p].devices[d]));
      if (platforms[p].devices[d].is_emulator && !is_asked_for(platforms[p])) continue;  // it may compile for half a minute
      report.begin("product-" + which, kToCompute);
      report.add(product_on({.platform = std::to_string(p), .device = std::to_string(d)}));
    }
}

/// The command that brings a driver for CPUs.
std::string how_to_install() {
  if (!programs_in_path("apt-get").empty()) return as_root("apt-get install --no-install-recommends pocl-opencl-icd");
  return "install an OpenCL driver: PoCL brings one for CPUs (the package is called pocl, pocl-opencl-icd or the like)";
}

/// @param line  of which it is
void say_there_is_none(Report& report, const char* line) {
  report.begin(line, Check::kLimit);
  const std::filesystem::path place = opencl::drivers_place();
  const bool is_users = !opencl::from_environment("OCL_ICD_VENDORS").empty();
  std::string remedy = how_to_install();
  if (is_users) {
    ::unsetenv("OCL_ICD_VENDORS");
    if (!opencl::installed_drivers(opencl::drivers_place()).empty()) remedy = "unset OCL_ICD_VENDORS";
  }
  report.add({Health::wrong, fmt::format("no OpenCL driver: {} names none{}", place.string(), is_users ? ", which OCL_ICD_VENDORS says" : ""), remedy});
}

/// The device that a run takes which is told nothing else, or what the variables say. It loads all drivers.
void look_at_choice(Report& report) {
  report.begin("device", kToCompute);
  const auto device = opencl::Device::open({});
  const opencl::DeviceProfile& p = device->profile();
  report.add({Health::ok, fmt::format("{} ({}) is what runs take", p.name, p.platform)});
}

/// What a product may have failed for, beside its driver.
std::string remedy_of_product(const std::vector<Line>& lines) {
  if (programs_in_path("ld").empty() && program_in("/usr/bin", "ld")) return "export PATH=/usr/bin:$PATH";  // a driver's compiler links by it
  for (const Line& l : lines)
    if ((l.name == "kernel-folder" || l.name == "limits") && l.finding.health != Health::ok) return fmt::format("mend {} first", l.name);
  return "run it once more, as the first time kernels are compiled; else another version of the driver, or another device by --platform and --device";
}

}  // namespace

std::vector<Check> driver_checks() {
  const std::vector<DriverFile> drivers = opencl::installed_drivers(opencl::drivers_place());
  std::vector<Check> out;
  for (const DriverFile& driver : drivers) out.push_back({kDrivers, [driver](Report& report) { look_at(driver, report); }, text_of(driver)});
  if (drivers.empty())
    for (const char* line : {kDrivers, "device"}) out.push_back({line, [line](Report& report) { say_there_is_none(report, line); }});
  else
    out.push_back({"device", look_at_choice});
  return out;
}

/// The run's own device cannot be told where a driver ends whatever loads it: that line would be the same news again.
void add_driver_remedies(std::vector<Line>& lines) {
  const auto line = [&](const std::string& name) { return std::ranges::find(lines, name, &Line::name); };
  for (Line& l : lines)
    if (l.name.starts_with("product-") && l.finding.health == Health::wrong && l.finding.remedy.empty()) l.finding.remedy = remedy_of_product(lines);
  if (line(kDrivers) == lines.end() || line(kDrivers)->finding.health != Health::wrong) return;
  std::erase_if(lines, [](const Line& l) { return l.name == "device"; });
  std::string& remedy = line(kDrivers)->finding.remedy;
  if (!remedy.empty()) return;
  remedy = "remove the package that the driver is of";
  for (const DriverFile& d : opencl::installed_drivers(opencl::drivers_place()))
    if (const auto product = line(fmt::format("product-{}-0", d.file.stem().string())); product != lines.end() && product->finding.health == Health::ok)
      remedy = "export OCL_ICD_VENDORS=" + shell_word(d.file.string());
}

}  // namespace gemel::cli
