#include "opencl/device/known_gpus.h"

#include <array>
#include <cctype>
#include <string>

namespace gemel::opencl {
namespace {

constexpr std::int64_t kib(std::int64_t n) { return n << 10; }
constexpr std::int64_t mib(std::int64_t n) { return n << 20; }

constexpr bool kOffsets = true, kTf32 = true;

constexpr std::array kKnown{
    KnownGpu{"v100", 80, 32, kib(48), 1024, mib(6), 15'700, 900, kOffsets},
    KnownGpu{"t4", 40, 32, kib(48), 1024, mib(4), 8'100, 320, kOffsets},
    KnownGpu{"a100", 108, 32, kib(48), 1024, mib(40), 19'500, 2'039, kOffsets, kTf32},
    KnownGpu{"rtx3090", 82, 32, kib(48), 1024, mib(6), 35'600, 936, kOffsets, kTf32},
    KnownGpu{"rtx4090", 128, 32, kib(48), 1024, mib(72), 82'600, 1'008, kOffsets, kTf32},
    KnownGpu{"l20", 92, 32, kib(48), 1024, mib(96), 59'800, 864, kOffsets, kTf32},
    KnownGpu{"h100", 132, 32, kib(48), 1024, mib(50), 62'900, 3'350, kOffsets, kTf32},
    KnownGpu{"h200", 132, 32, kib(48), 1024, mib(50), 62'900, 4'800, kOffsets, kTf32},
    KnownGpu{"radeon-vii", 60, 64, kib(64), 256, mib(4), 13'800, 1'024},
    KnownGpu{"mi100", 120, 64, kib(64), 256, mib(8), 23'100, 1'229},
    KnownGpu{"mi250", 104, 64, kib(64), 256, mib(8), 22'600, 1'638},  // one of its two dies, which is a device
    KnownGpu{"rx6800xt", 36, 32, kib(64), 256, mib(128), 20'700, 512},
    KnownGpu{"rx7900xtx", 48, 32, kib(64), 256, mib(96), 30'700, 960},  // without dual issue
    KnownGpu{"arc-a770", 512, 32, kib(64), 1024, mib(16), 19'700, 560},
    KnownGpu{"max1550", 512, 32, kib(128), 1024, mib(204), 26'200, 1'638},  // one of its two stacks, which is a device
    KnownGpu{"iris-xe", 96, 32, kib(64), 512, kib(3840), 2'000, 68},        // integrated: memory is the host's
    KnownGpu{"uhd630", 24, 32, kib(64), 256, kib(768), 440, 42},            // integrated
};

bool is_between_words(char c) { return c == ' ' || c == '-'; }

/// Whether a device's name goes on with this one, whatever case and gaps it has, and with no further digit: an A100 is no A1000.
bool begins_with(std::string_view device, std::string_view name) {
  std::size_t at = 0;
  for (const char c : name) {
    if (is_between_words(c)) continue;
    while (at < device.size() && is_between_words(device[at])) ++at;
    if (at == device.size() || std::tolower(static_cast<unsigned char>(device[at++])) != c) return false;
  }
  return at == device.size() || !std::isdigit(static_cast<unsigned char>(device[at]));
}

}  // namespace

std::span<const KnownGpu> known_gpus() { return kKnown; }

const KnownGpu* known_gpu(std::string_view device) {
  std::string name(device);
  for (const std::string_view mark : {"(R)", "(TM)", "Graphics"})  // "Intel(R) Arc(TM) A770 Graphics"
    for (std::size_t at = name.find(mark); at != name.npos; at = name.find(mark)) name.erase(at, mark.size());
  if (name.find("Laptop") != name.npos || name.find("Max-Q") != name.npos) return nullptr;  // of the same name, and slower
  for (std::string_view rest = name; !rest.empty(); rest.remove_prefix(1))
    for (const KnownGpu& gpu : kKnown)
      if (begins_with(rest, gpu.name)) return &gpu;
  return nullptr;
}

}  // namespace gemel::opencl
