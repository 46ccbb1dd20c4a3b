// One reader under libFuzzer: GEMEL_FUZZ_TARGET names it. Built with -DGEMEL_FUZZ=ON by clang; see docs/guide/testing.md.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"
#include "tests/support/faults/fuzz_targets.h"
#include "tests/support/temporary_folder.h"

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

const gemel::testing::FuzzTarget& chosen() {
  static const gemel::testing::FuzzTarget made = target();
  return made;
}

/// The corpus, as libFuzzer reads it.
const std::string& corpus_folder() {
  static const gemel::testing::TemporaryFolder folder;
  static const std::string path = folder.path().string();
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  static std::vector<char*> all(*arguments, *arguments + *count);
  const auto is_option = [](const char* argument) { return argument[0] == '-'; };
  if (!std::all_of(all.begin() + 1, all.end(), is_option)) return 0;  // files to repeat, or folders of the user's own
  for (std::size_t i = 0; i < chosen().corpus.size(); ++i) gemel::testing::write_text(corpus_folder() + "/" + std::to_string(i), chosen().corpus[i]);
  all.push_back(const_cast<char*>(corpus_folder().c_str()));
  all.push_back(nullptr);
  *count = static_cast<int>(all.size()) - 1;
  *arguments = all.data();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    chosen().read({reinterpret_cast<const char*>(data), size});
  } catch (const gemel::InternalError&) {
    throw;
  } catch (const gemel::Error&) {  // refused
  }
  return 0;
}
