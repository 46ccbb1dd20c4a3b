// Which sources the program was built from, and how.
#pragma once

namespace gemel::cli {

/// "6f1c0ffee123", with "-changed" where files differed from the commit, or "unknown" outside a repository.
const char* commit();
/// "Release": how they were compiled.
const char* build_type();

}  // namespace gemel::cli
