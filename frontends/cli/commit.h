// Which sources the program was built from.
#pragma once

namespace gemel::cli {

/// "6f1c0ffee123", with "-changed" where files differed from the commit, or "unknown" outside a repository.
const char* commit();

}  // namespace gemel::cli
