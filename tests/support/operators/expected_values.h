// What other libraries computed, kept in safetensors files under tests/data beside the script that made them.
#pragma once
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/dtype_conversion.h"
#include "engine/core/session.h"
#include "engine/files/safetensors.h"

namespace gemel::testing {

/// A file below tests/data.
inline std::filesystem::path test_data(std::string_view file) { return std::filesystem::path(GEMEL_SOURCE_DIR) / "tests/data" / file; }

class Expected {
 public:
  /// @param file  below tests/data
  explicit Expected(std::string_view file) : file_(test_data(file)) {}
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  std::span<const NamedTensor> tensors() const { return file_.tensors(); }
  const NamedTensor& named(const std::string& name) const {
    const NamedTensor* const tensor = file_.find(name);
    if (!tensor) throw std::runtime_error(file_.path().string() + " has no " + name);
    return *tensor;
  }
  Value tensor(Session& session, const std::string& name) const { return session.tensor(named(name).spec, named(name).data); }
  std::vector<double> numbers(const std::string& name) const { return numbers_from_bytes(named(name).spec.dtype, named(name).data); }

 private:
  SafetensorsFile file_;
};

}  // namespace gemel::testing
