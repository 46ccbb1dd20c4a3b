// A folder for compiled kernels and tuning tables that goes with the test.
#pragma once
#include "tests/temporary_folder.h"
#include "tests/variable.h"

namespace gemel::testing {

/// GEMEL_CACHE_DIR while it lives.
class CacheFolder : public TemporaryFolder {
  const Variable names_it_{"GEMEL_CACHE_DIR", path().string()};
};

}  // namespace gemel::testing
