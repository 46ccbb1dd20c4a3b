#include "opencl/device/known_gpus.h"

#include <array>
#include <cctype>
#include <string>

namespace gemel::opencl {
namespace {

constexpr std::int64_t kib(std::int64_t n) { return n << 10; }
constexpr std::int64_t mib(std::int64_t n) { return n << 20; }

constexpr bool kOffsets = true;

constexpr std::array kKnown{
    KnownGpu{"v100", 80, 32, kib(48), 1024, mib(6), 15'700, 900, kOffsets},
    KnownGpu{"t4", 40, 32, kib(48), 1024, mib(4), 8'100, 320, kOffsets},
    KnownGpu{"a100", 108, 32, kib(48), 1024, mib(40), 19'500, 2'039, kOffsets},
    KnownGpu{"rtx3090", 82, 32, kib(48), 1024, mib(6), 35'600, 936, kOffsets},
    KnownGpu{"rtx4090", 128, 32, kib(48), 1024, mib(72), 82'600, 1'008, kOffsets},
    KnownGpu{"l20", 92, 32, kib(48), 1024, mib(96), 59'800, 864, kOffsets},
    KnownGpu{"h100", 132, 32, kib(48), 1024, mib(50), 62'900, 3'350, kOffsets},
    KnownGpu{"h200", 132, 32, kib(48), 1024, mib(50), 62'900, 4'800, kOffsets},
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

/// "NVIDIA GeForce RTX 4090": "nvidiageforcertx4090"; "Intel(R) Arc(TM) A770 Graphics": "intelarca770"
std::string plain(std::string_view name) {
  std::string text(name), out;
  for (const std::string_view mark : {"(R)", "(TM)", "Graphics"})
    for (std::size_t at = text.find(mark); at != text.npos; at = text.find(mark)) text.erase(at, mark.size());
  for (const unsigned char c : text)
    if (std::isalnum(c)) out += static_cast<char>(std::tolower(c));
  return out;
}

}  // namespace

std::span<const KnownGpu> known_gpus() { return kKnown; }

const KnownGpu* known_gpu(std::string_view device) {
  const std::string name = plain(device);
  if (name.find("laptop") != name.npos || name.find("maxq") != name.npos) return nullptr;  // of the same name, and slower
  for (const KnownGpu& gpu : kKnown) {
    const std::string known = plain(gpu.name);
    const std::size_t begin = name.find(known), end = begin + known.size();
    if (begin != name.npos && (end == name.size() || !std::isdigit(static_cast<unsigned char>(name[end])))) return &gpu;  // an A100 is no A1000
  }
  return nullptr;
}

}  // namespace gemel::opencl
