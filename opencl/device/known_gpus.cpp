#include "opencl/device/known_gpus.h"

#include <array>

namespace gemel::opencl {
namespace {

constexpr std::int64_t kib(std::int64_t n) { return n << 10; }

constexpr std::array kKnown{
    KnownGpu{"v100", 80, 32, kib(48), 1024, 15'700, 900},
    KnownGpu{"t4", 40, 32, kib(48), 1024, 8'100, 320},
    KnownGpu{"a100", 108, 32, kib(48), 1024, 19'500, 2'039},
    KnownGpu{"rtx3090", 82, 32, kib(48), 1024, 35'600, 936},
    KnownGpu{"rtx4090", 128, 32, kib(48), 1024, 82'600, 1'008},
    KnownGpu{"l20", 92, 32, kib(48), 1024, 59'800, 864},
    KnownGpu{"h100", 132, 32, kib(48), 1024, 62'900, 3'350},
    KnownGpu{"h200", 132, 32, kib(48), 1024, 62'900, 4'800},
    KnownGpu{"radeon-vii", 60, 64, kib(64), 256, 13'800, 1'024},
    KnownGpu{"mi100", 120, 64, kib(64), 256, 23'100, 1'229},
    KnownGpu{"mi250", 104, 64, kib(64), 256, 22'600, 1'638},  // one of its two dies, which is a device
    KnownGpu{"rx6800xt", 36, 32, kib(64), 256, 20'700, 512},
    KnownGpu{"rx7900xtx", 48, 32, kib(64), 256, 30'700, 960},  // without dual issue
    KnownGpu{"arc-a770", 512, 32, kib(64), 1024, 19'700, 560},
    KnownGpu{"max1550", 512, 32, kib(128), 1024, 26'200, 1'638},  // one of its two stacks, which is a device
    KnownGpu{"iris-xe", 96, 32, kib(64), 512, 2'000, 68},         // integrated: memory is the host's
    KnownGpu{"uhd630", 24, 32, kib(64), 256, 440, 42},            // integrated
};

}  // namespace

std::span<const KnownGpu> known_gpus() { return kKnown; }

}  // namespace gemel::opencl
