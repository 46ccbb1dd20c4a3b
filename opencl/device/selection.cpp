#include "opencl/device/selection.h"

#include <CL/cl_ext.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <mutex>
#include <system_error>
#include <tuple>

#include "engine/base/error.h"
#include "engine/base/resource_limits.h"
#include "opencl/device/known_gpus.h"
#include "opencl/device/pretended_gpu.h"
#include "opencl/memory/memory_limit.h"
#include "opencl/pocl/driver_cache.h"
#include "opencl/pocl/pocl_variables.h"

namespace gemel::opencl {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// Whether the user says how many threads PoCL is to have, which may be more than there are processors.
bool names_threads() {
  const auto is_set = [](const char* name) { return !from_environment(name).empty(); };
  return is_set("POCL_MAX_PTHREAD_COUNT") || is_set("POCL_CPU_MAX_CU_COUNT") || is_set("POCL_PTHREAD_MIN_THREADS");
}

/// Writes only what differs: a driver may be reading the environment in another thread.
void set_variable(const char* name, const std::string& value) {
  if (from_environment(name) != value) setenv(name, value.c_str(), 1);
}

bool contains(const std::string& text, const std::string& part) { return lower(text).find(lower(part)) != std::string::npos; }

bool is_index(const std::string& text) {
  return !text.empty() && text.size() < 6 && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

/// The lanes that the machine has: a driver on a CPU newer than its compiler reports fewer.
int host_simd_width() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return 16;
  if (__builtin_cpu_supports("avx2")) return 8;
#endif
  return 4;
}

/// Iterations that are asked of an emulator: some cut a work-item off after 65 535 of all its loops, without a word.
constexpr std::int64_t kEmulatedLoop = 1 << 14;

DeviceKind kind_of(cl_device_type type) {
  if (type & CL_DEVICE_TYPE_GPU) return DeviceKind::gpu;
  return type & CL_DEVICE_TYPE_CPU ? DeviceKind::cpu : DeviceKind::accelerator;
}

/// As the makers' extensions tell it: OpenCL 1.2 has no word of it. Where a kernel may have several widths, the widest.
void set_sub_group_widths(DeviceProfile& p, cl_device_id device) {
  const std::string extensions = device_text(device, CL_DEVICE_EXTENSIONS);
  const auto has = [&](const char* name) { return extensions.find(name) != std::string::npos; };
  if (has("cl_nv_device_attribute_query")) p.sub_group_width = static_cast<int>(device_info<cl_uint>(device, CL_DEVICE_WARP_SIZE_NV));
  if (has("cl_amd_device_attribute_query")) p.sub_group_width = static_cast<int>(device_info<cl_uint>(device, CL_DEVICE_WAVEFRONT_WIDTH_AMD));
  if (p.sub_group_width || !has("cl_intel_required_subgroup_size")) return;
  std::array<std::size_t, 16> widths{};
  std::size_t bytes = 0;
  if (clGetDeviceInfo(device, CL_DEVICE_SUB_GROUP_SIZES_INTEL, sizeof widths, widths.data(), &bytes) != CL_SUCCESS || bytes == 0) return;
  const auto [least, most] = std::ranges::minmax(std::span(widths).first(bytes / sizeof widths[0]));
  p.sub_group_width = static_cast<int>(most);
  if (least < most) p.least_sub_group_width = static_cast<int>(least);
}

/// That the device may have: whether its driver takes their instructions a trial shows (opencl/device/matrix_units.h).
MatrixUnits matrix_units_of(cl_device_id device) {
  constexpr cl_uint kAmpere = 8;  // the first with TF32
  const bool tells = device_text(device, CL_DEVICE_EXTENSIONS).find("cl_nv_device_attribute_query") != std::string::npos;
  return tells && device_info<cl_uint>(device, CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV) >= kAmpere ? MatrixUnits::mma_sync : MatrixUnits::none;
}

/// What drivers do not tell. Those of NVIDIA and AMD give the size of the first caches, of all units or of one, for that of the last.
void set_known_facts(DeviceProfile& p) {
  if (p.is_cpu()) return;
  const KnownGpu* known = known_gpu(p.name);
  if (known) p.flops_a_byte = known->flops_a_byte();
  if (contains(p.platform, "nvidia") || contains(p.platform, "amd accelerated parallel processing")) p.cache_bytes = known ? known->cache_bytes : 0;
}

DeviceProfile profile_of(cl_platform_id platform, cl_device_id device) {
  DeviceProfile p;
  p.platform = platform_text(platform, CL_PLATFORM_NAME);
  p.name = device_text(device, CL_DEVICE_NAME);
  p.vendor = device_text(device, CL_DEVICE_VENDOR);
  p.version = device_text(device, CL_DEVICE_VERSION);
  p.driver = device_text(device, CL_DRIVER_VERSION);
  p.kind = kind_of(device_info<cl_device_type>(device, CL_DEVICE_TYPE));
  p.has_fma = device_info<cl_device_fp_config>(device, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_FMA;
  p.parses_builtins = contains(p.platform, "portable computing language");
  p.is_emulator = contains(p.name, "llvmpipe") || contains(p.platform, "oclgrind") || contains(p.name, "oclgrind");
  if (p.is_emulator) p.longest_loop = kEmulatedLoop;
  p.compute_units = static_cast<int>(std::max<cl_uint>(1, device_info<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS)));
  p.clock_mhz = static_cast<int>(device_info<cl_uint>(device, CL_DEVICE_MAX_CLOCK_FREQUENCY));
  p.cache_bytes = std::min(static_cast<std::int64_t>(device_info<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE)), p.compute_units * kCacheOfUnit);
  if (p.is_cpu()) p.unit_cache_bytes = std::max(sysconf(_SC_LEVEL2_CACHE_SIZE), 0L);
  p.shares_host_memory = device_info<cl_bool>(device, CL_DEVICE_HOST_UNIFIED_MEMORY);
  p.stages_transfers = !p.shares_host_memory && !p.is_cpu();
  p.simd_width = static_cast<int>(std::max<cl_uint>(1, device_info<cl_uint>(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT)));
  if (p.is_cpu() && !p.is_emulator) p.simd_width = std::max(p.simd_width, host_simd_width());
  set_sub_group_widths(p, device);
  p.matrix_units = matrix_units_of(device);
  p.local_bytes = static_cast<std::int64_t>(device_info<cl_ulong>(device, CL_DEVICE_LOCAL_MEM_SIZE));
  p.has_real_local_memory = device_info<cl_device_local_mem_type>(device, CL_DEVICE_LOCAL_MEM_TYPE) == CL_LOCAL && !p.is_cpu();
  p.global_bytes = static_cast<std::int64_t>(device_info<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE));
  p.max_allocation_bytes = static_cast<std::int64_t>(device_info<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE));
  // NVIDIA's driver (580.159) crashes when sub-buffers are released that overlap and that kernels have used. Offsets take their place, and
  // CLBlast counts them in int.
  p.overlaps_sub_buffers = !contains(p.platform, "nvidia");
  if (!p.overlaps_sub_buffers)
    p.max_allocation_bytes = std::min<std::int64_t>(p.max_allocation_bytes, std::int64_t{4} * std::numeric_limits<std::int32_t>::max());
  p.max_group_size = static_cast<std::int64_t>(device_info<std::size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  p.base_alignment_bytes = std::max<std::int64_t>(64, device_info<cl_uint>(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8);
  set_known_facts(p);
  pretend(p, from_environment(kPretendVariable));
  return p;
}

std::string problem_of(cl_device_id device) {
  if (!device_info<cl_bool>(device, CL_DEVICE_AVAILABLE)) return "the driver says it is not available";
  if (!device_info<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE)) return "the driver has no compiler";
  if (!device_info<cl_bool>(device, CL_DEVICE_ENDIAN_LITTLE)) return "it is big-endian";
  const std::string version = device_text(device, CL_DEVICE_VERSION);  // "OpenCL 1.2 ..."
  if (version.starts_with("OpenCL 1.0") || version.starts_with("OpenCL 1.1")) return fmt::format("it has {}; accepted: 1.2 or later", version.substr(0, 10));
  return "";
}

struct FoundPlatform {
  cl_platform_id id;
  std::string name;
  std::vector<cl_device_id> devices;
};

/// Of the environment's variables, which drivers read as they start: none is set while another thread reads them.
std::mutex& environment_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::vector<FoundPlatform> found_platforms() {
  // PoCL has no devices yet for a thread that asks while another one asks for the first time.
  const std::lock_guard lock(environment_mutex());
  const DriverCache::Shown cache(DriverCache::of_process());
  cl_uint count = 0;
  if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0) return {};
  std::vector<cl_platform_id> ids(count);
  check(clGetPlatformIDs(count, ids.data(), nullptr), "clGetPlatformIDs");
  std::vector<FoundPlatform> out;
  for (cl_platform_id id : ids) {
    FoundPlatform p{id, platform_text(id, CL_PLATFORM_NAME), {}};
    cl_uint devices = 0;
    if (clGetDeviceIDs(id, CL_DEVICE_TYPE_ALL, 0, nullptr, &devices) == CL_SUCCESS && devices > 0) {
      p.devices.resize(devices);
      check(clGetDeviceIDs(id, CL_DEVICE_TYPE_ALL, devices, p.devices.data(), nullptr), "clGetDeviceIDs");
    }
    out.push_back(std::move(p));
  }
  return out;
}

/// "pocl" finds PoCL, whose platform bears its long name.
bool platform_matches(const FoundPlatform& platform, const std::string& wanted) {
  if (contains(platform.name, wanted)) return true;
  return contains("pocl", wanted) && contains(platform.name, "Portable Computing Language");
}

/// PoCL offers no device where it cannot write its cache.
bool offers_nothing(const FoundPlatform& p) { return p.devices.empty() && platform_matches(p, "pocl"); }

/// rusticl shows what drivers it is told to, by default none.
bool shows_nothing(const FoundPlatform& p) { return p.devices.empty() && platform_matches(p, "rusticl"); }

std::string why_nothing() {
  const std::string cache = from_environment("POCL_CACHE_DIR"), devices = from_environment("POCL_DEVICES");
  const std::string text =
      " offers none where its cache cannot be written: " + (cache.empty() ? "GEMEL_CACHE_DIR may name a folder that can" : "POCL_CACHE_DIR names " + cache);
  return devices.empty() ? text : text + fmt::format("; or where POCL_DEVICES, '{}', has no device that it is built with, such as pthread", devices);
}

std::string listed(const std::vector<FoundPlatform>& platforms) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < platforms.size(); ++i)
    names.push_back(fmt::format("{} \"{}\" ({} device{})", i, platforms[i].name, platforms[i].devices.size(), platforms[i].devices.size() == 1 ? "" : "s"));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<FoundPlatform> wanted_platforms(const std::vector<FoundPlatform>& all, const std::string& wanted) {
  if (wanted.empty()) return all;
  if (is_index(wanted)) {
    const auto i = std::stoul(wanted);
    if (i < all.size()) return {all[i]};
  } else {
    std::vector<FoundPlatform> matching;
    for (const FoundPlatform& p : all)
      if (platform_matches(p, wanted)) matching.push_back(p);
    if (!matching.empty()) return matching;
  }
  throw UsageError(fmt::format("platform: '{}' is not found; accepted: an index or a part of a name of {}", wanted, listed(all)));
}

bool device_matches(const FoundDevice& d, int index, const std::string& wanted) {
  if (wanted.empty()) return true;
  if (is_index(wanted)) return std::stoi(wanted) == index;
  if (lower(wanted) == "cpu") return d.profile.kind == DeviceKind::cpu;
  if (lower(wanted) == "gpu") return d.profile.kind == DeviceKind::gpu;
  return false;
}

/// A GPU before a CPU, then by rate, emulators last.
bool better(const FoundDevice& a, const FoundDevice& b) {
  const auto key = [](const FoundDevice& d) { return std::tuple(!d.profile.is_emulator, d.profile.kind == DeviceKind::gpu, d.profile.estimated_gflops()); };
  return key(a) > key(b);
}

/// Whether the system has a GPU that Mesa may drive.
bool has_render_node() {
  std::error_code none;
  return std::ranges::any_of(std::filesystem::directory_iterator("/dev/dri", none),
                             [](const auto& entry) { return entry.path().filename().string().starts_with("renderD"); });
}

}  // namespace

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string to_string(DeviceKind kind) { return kind == DeviceKind::cpu ? "cpu" : kind == DeviceKind::gpu ? "gpu" : "accelerator"; }

double DeviceProfile::estimated_gflops() const {
  // A GPU's unit runs far more lanes than its vector type has; 64 is the least that any of them runs.
  const double lanes = kind == DeviceKind::gpu ? 64 : simd_width;
  return 2e-3 * compute_units * lanes * std::max(clock_mhz, 1);
}

void prepare_environment(int threads) {
  const std::lock_guard lock(environment_mutex());
  if (!has_render_node()) setenv("RUSTICL_ENABLE", "llvmpipe", 0);  // a list of ours would hide the GPUs that Mesa shows by itself
  [[maybe_unused]] static const bool checked = (check_pocl_variables(threads), check_process_limits(), true);  // once: what comes later may be ours
  DriverCache::of_process().open();
  // A worker of PoCL that is woken where another one runs waits behind it: no scheduler moves it within a step so short.
  const AllowedCores cores = allowed_cores();
  const bool is_whole = cores.is_whole_machine() && processors_to_bind_to(cores) == cores.of_machine;
  if (is_whole && (threads <= 0 ? !names_threads() : threads == cores.of_machine)) setenv("POCL_AFFINITY", "1", 0);
  if (threads <= 0 && !is_whole && !names_threads()) threads = cores.count();  // PoCL would have one for each processor of the machine
  if (threads <= 0) return;
  const std::string text = std::to_string(threads);
  set_variable("POCL_MAX_PTHREAD_COUNT", text);  // PoCL before 4.0
  set_variable("POCL_CPU_MAX_CU_COUNT", text);   // and since
}

void tell_clblast(Denormals denormals) {
  const std::lock_guard lock(environment_mutex());
  constexpr const char* kVariable = "CLBLAST_BUILD_OPTIONS";
  static const std::string given = from_environment(kVariable);
  const std::string text = (denormals == Denormals::flush ? "-cl-denorms-are-zero " : "") + given;  // CLBlast puts no space behind it
  if (!text.empty())
    set_variable(kVariable, text);
  else if (std::getenv(kVariable))
    unsetenv(kVariable);
}

std::vector<PlatformInfo> platforms() {
  prepare_environment(0);
  std::vector<PlatformInfo> out;
  for (const FoundPlatform& p : found_platforms()) {
    PlatformInfo info{p.name, platform_text(p.id, CL_PLATFORM_VENDOR), platform_text(p.id, CL_PLATFORM_VERSION), {}, {}};
    for (cl_device_id d : p.devices) {
      info.devices.push_back(profile_of(p.id, d));
      info.problems.push_back(problem_of(d));
    }
    out.push_back(std::move(info));
  }
  return out;
}

WantedDevice wanted_device(const std::string& text) {
  const std::size_t point = text.find('.');
  if (point == std::string::npos || !is_index(text.substr(0, point)) || !is_index(text.substr(point + 1))) return {text, std::nullopt};
  return {text.substr(0, point), std::stoi(text.substr(point + 1))};
}

FoundDevice select_device(const std::string& platform, const std::string& device) {
  const auto all = found_platforms();
  if (all.empty()) throw DeviceError("platform: no OpenCL platform is found; accepted: any OpenCL driver, for instance the package pocl-opencl-icd");
  if (!device.empty() && !is_index(device) && lower(device) != "cpu" && lower(device) != "gpu")
    throw UsageError(fmt::format("device: '{}' is unknown; accepted: an index, one of its parts (0.1), cpu or gpu", device));
  std::vector<FoundDevice> usable;
  std::string refused;
  for (const FoundPlatform& p : wanted_platforms(all, platform)) {
    if (offers_nothing(p)) refused += "; " + p.name + why_nothing();
    for (std::size_t i = 0; i < p.devices.size(); ++i) {
      FoundDevice d{p.id, p.devices[i], profile_of(p.id, p.devices[i])};
      if (!device_matches(d, static_cast<int>(i), device)) continue;
      if (const std::string why = problem_of(d.device); !why.empty())
        refused += fmt::format("; {} cannot be used: {}", d.profile.name, why);
      else
        usable.push_back(std::move(d));
    }
  }
  // An index alone means: in the platform of the device that would be taken without it.
  if (platform.empty() && is_index(device)) {
    const cl_platform_id best = select_device("", "").platform;
    std::erase_if(usable, [&](const FoundDevice& d) { return d.platform != best; });
  }
  if (usable.empty()) {
    if (std::ranges::any_of(wanted_platforms(all, platform), shows_nothing))
      refused += "; rusticl shows the cards of drivers that RUSTICL_ENABLE names: radeonsi (AMD), iris (Intel)";
    const std::string none = fmt::format("device: none{}{} is found; accepted: a device of {}{}", device.empty() ? "" : " that is '" + device + "'",
                                         platform.empty() ? "" : " on platform '" + platform + "'", listed(all), refused);
    if (!device.empty() && refused.empty()) throw UsageError(none);
    throw DeviceError(none);
  }
  const FoundDevice& best = *std::min_element(usable.begin(), usable.end(), better);
  if (best.profile.is_emulator && platform.empty() && !refused.empty())  // hundreds of times slower: taken only where it is asked for
    throw DeviceError(fmt::format("device: only {}, an emulator, can be used; accepted: another, or --platform {} for this one{}", best.profile.name,
                                  best.profile.platform, refused));
  return best;
}

std::vector<std::string> devices_alike(const FoundDevice& device) {
  std::vector<std::string> out;
  for (const FoundPlatform& p : found_platforms())
    for (std::size_t i = 0; i < p.devices.size() && p.id == device.platform; ++i)
      if (profile_of(p.id, p.devices[i]).kind == device.profile.kind && problem_of(p.devices[i]).empty()) out.push_back(std::to_string(i));
  return out;
}

}  // namespace gemel::opencl
