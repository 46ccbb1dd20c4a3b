#include "engine/base/denormals.h"

#include <cstdint>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace gemel {

void set_denormals(Denormals denormals) {
  [[maybe_unused]] const bool flushes = denormals == Denormals::flush;
#if defined(__SSE2__)
  constexpr unsigned kResults = 1u << 15, kOperands = 1u << 6;  // of MXCSR
  const unsigned others = _mm_getcsr() & ~(kResults | kOperands);
  _mm_setcsr(flushes ? others | kResults | kOperands : others);
#elif defined(__aarch64__)
  constexpr std::uint64_t kBoth = std::uint64_t{1} << 24;  // of FPCR
  std::uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  control = flushes ? control | kBoth : control & ~kBoth;
  asm volatile("msr fpcr, %0" : : "r"(control));
#endif
}

const char* to_string(Denormals denormals) { return denormals == Denormals::flush ? "flush" : "keep"; }

}  // namespace gemel
