// The commit and the build type that the program was built from.
#pragma once

namespace gemel::cli {

/// Returns the commit, such as "6f1c0ffee123", with "-changed" if files differed from it, or "unknown" outside a repository.
const char* commit();
/// Returns CMake's build type: "Release".
const char* build_type();

}  // namespace gemel::cli
