// A folder for compiled kernels and tuning tables that goes with the test.
#pragma once
#include "tests/support/environment_variable.h"
#include "tests/support/temporary_folder.h"

namespace gemel::testing {

/// GEMEL_CACHE_DIR while it lives.
class CacheFolder : public TemporaryFolder {
  const Variable names_it_{"GEMEL_CACHE_DIR", path().string()};
};

}  // namespace gemel::testing
