// A folder for compiled kernels and tuning tables that goes with the test.
#pragma once
#include <stdlib.h>

#include <optional>
#include <string>

#include "tests/temporary_folder.h"

namespace gemel::testing {

/// GEMEL_CACHE_DIR while it lives.
class CacheFolder : public TemporaryFolder {
 public:
  CacheFolder() {
    if (const char* before = ::getenv("GEMEL_CACHE_DIR")) before_ = before;
    ::setenv("GEMEL_CACHE_DIR", path().c_str(), 1);
  }
  ~CacheFolder() {
    if (before_) ::setenv("GEMEL_CACHE_DIR", before_->c_str(), 1);
    else ::unsetenv("GEMEL_CACHE_DIR");
  }

 private:
  std::optional<std::string> before_;
};

}  // namespace gemel::testing
