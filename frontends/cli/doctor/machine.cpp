// gemel doctor: the program, the machine, and the resources that the program may use.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>

#include "engine/base/machine_facts.h"
#include "engine/base/resource_limits.h"
#include "frontends/cli/doctor/health_check.h"
#include "frontends/cli/system/build_info.h"

namespace gemel::cli {
namespace {

namespace fs = std::filesystem;

Finding version() { return {Health::ok, fmt::format("gemel {}, commit {}", GEMEL_VERSION, commit())}; }

Finding build() {
#if defined(__clang__)
  const std::string compiler = fmt::format("Clang {}", __clang_version__);
#else
  const std::string compiler = fmt::format("GCC {}", __VERSION__);
#endif
  return {Health::ok, fmt::format("{}, {}", build_type(), compiler)};
}

/// Those linked, by the names that their files have behind all links: "libmpi.so.40.30.4".
Finding libraries() {
  std::set<std::string> found;
  const auto note = [](dl_phdr_info* info, std::size_t, void* into) {
    constexpr std::array<std::string_view, 8> kOfInterest{"libOpenCL", "libclblast", "libmpi.", "libboost_", "libfmt", "libutf8proc", "libstdc++", "libc.so"};
    std::error_code none;
    const fs::path name = fs::path(info->dlpi_name).filename(), real = fs::canonical(info->dlpi_name, none);
    if (std::ranges::any_of(kOfInterest, [&](std::string_view of) { return name.string().starts_with(of); }))
      static_cast<std::set<std::string>*>(into)->insert(none ? name.string() : real.filename().string());
    return 0;
  };
  ::dl_iterate_phdr(note, &found);
  return {Health::ok, fmt::format("{}", fmt::join(found, ", "))};
}

Finding distribution() {
  std::error_code none;
  const bool contained = fs::exists("/.dockerenv", none) || fs::exists("/run/.containerenv", none);
  return {Health::ok, system_name() + (contained ? ", in a container" : "")};
}

Finding processor() {
  constexpr std::array<const char*, 12> kOfInterest{"avx2",        "fma",      "f16c",     "avx512f", "avx512_bf16", "avx512_fp16",
                                                    "avx512_vnni", "amx_bf16", "amx_int8", "asimd",   "sve",         "bf16"};
  std::string name = processor_name();
  if (name.empty()) name = "of an unknown name";
  std::istringstream flags(of_processor("flags") + " " + of_processor("Features"));
  std::set<std::string> all;
  for (std::string flag; flags >> flag;) all.insert(flag);
  std::vector<std::string> has;
  for (const char* one : kOfInterest)
    if (all.contains(one)) has.emplace_back(one);
  const std::string text = fmt::format("{}: {}", name, has.empty() ? "no vector instructions that Gemel asks about" : fmt::format("{}", fmt::join(has, ", ")));
#if defined(__x86_64__)
  if (!all.empty() && (!all.contains("avx2") || !all.contains("fma")))
    return {Health::odd, text + "; without avx2 and fma a kernel takes four numbers at a time",
            "another machine, or a virtual machine that shows its host's instructions (-cpu host)"};
#endif
  return {Health::ok, text};
}

/// Whether the mask alone keeps this process from processors, and not a cpuset, which the system would keep it in. Of the check's own process.
bool can_widen_mask(int processors) {
  std::vector<cpu_set_t> all(static_cast<std::size_t>(processors / CPU_SETSIZE + 1));
  const std::size_t bytes = all.size() * sizeof(cpu_set_t);
  for (int p = 0; p < processors; ++p) CPU_SET_S(static_cast<std::size_t>(p), bytes, all.data());
  return ::sched_setaffinity(0, bytes, all.data()) == 0 && std::ssize(allowed_cores().processors) == processors;
}

Finding cores() {
  const AllowedCores allowed = allowed_cores();
  const std::string text = fmt::format("{} of {} may be used", allowed.count(), allowed.of_machine);
  if (allowed.is_whole_machine()) return {Health::ok, text};
  if (const auto masked = std::ssize(allowed.processors); masked < allowed.of_machine && allowed.count() == masked) {
    const std::string which = fmt::format("{}: processor{} {}", text, masked == 1 ? "" : "s", fmt::join(allowed.processors, ", "));
    if (can_widen_mask(allowed.of_machine))
      return {Health::odd, which + ", by the mask of this shell (taskset)", fmt::format("taskset -cp 0-{} $$", allowed.of_machine - 1)};
    return {Health::odd, which + ", by a cpuset", "a wider cpuset: of the container (docker run --cpuset-cpus), the batch job or the service"};
  }
  return {Health::odd, fmt::format("{}: the control group grants {:g}", text, allowed.quota.value_or(0)),
          "a larger quota: of the container (docker run --cpus), the batch job or the service (CPUQuota)"};
}

Finding memory() {
  constexpr double kLittle = 1 << 30;
  const AllowedMemory allowed = allowed_memory();
  const std::string limit =
      allowed.limit >= allowed.of_machine ? "" : fmt::format(", by the control group's limit of {}", bytes_text(static_cast<double>(allowed.limit)));
  const std::string text =
      fmt::format("{} of {} may be used{}", bytes_text(static_cast<double>(allowed.bytes())), bytes_text(static_cast<double>(allowed.of_machine)), limit);
  if (static_cast<double>(allowed.bytes()) >= kLittle) return {Health::ok, text};
  return {Health::odd, text,
          limit.empty() ? "fewer programs beside it" : "a larger limit: of the container (docker run --memory), the batch job or the service"};
}

}  // namespace

std::vector<Check> machine_checks() {
  return {{"version", version},     {"build", build}, {"libraries", libraries}, {"distribution", distribution},
          {"processor", processor}, {"cores", cores}, {"memory", memory}};
}

}  // namespace gemel::cli
