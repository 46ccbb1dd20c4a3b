// One reader under libFuzzer: GEMEL_FUZZ_TARGET names it. Built with -DGEMEL_FUZZ=ON by clang; see docs/testing.md.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "engine/base/error.h"
#include "tests/fuzz_targets.h"

namespace {

gemel::testing::FuzzTarget target() {
  const char* wanted = std::getenv("GEMEL_FUZZ_TARGET");
  for (const std::string_view name : gemel::testing::fuzz_target_names())
    if (wanted && name == wanted) return gemel::testing::fuzz_target(name);
  std::fprintf(stderr, "GEMEL_FUZZ_TARGET: '%s' is unknown; accepted:", wanted ? wanted : "");
  for (const std::string_view name : gemel::testing::fuzz_target_names()) std::fprintf(stderr, " %.*s", static_cast<int>(name.size()), name.data());
  std::fprintf(stderr, "\n");
  std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const gemel::testing::FuzzTarget chosen = target();
  try {
    chosen.read({reinterpret_cast<const char*>(data), size});
  } catch (const gemel::InternalError&) {
    throw;
  } catch (const gemel::Error&) {  // refused
  }
  return 0;
}
