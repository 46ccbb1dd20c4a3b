// Tensors of a fixture's file by name.
#pragma once
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/files/safetensors.h"
#include "engine/host_cast.h"
#include "engine/session.h"

namespace gemel::testing {

class ExpectedTensors {
 public:
  explicit ExpectedTensors(const std::filesystem::path& file) : file_(file) {}
  Value tensor(Session& session, const std::string& name) const { return session.tensor(found(name).spec, found(name).data); }
  std::vector<double> numbers(const std::string& name) const { return numbers_from_bytes(found(name).spec.dtype, found(name).data); }

 private:
  const NamedTensor& found(const std::string& name) const {
    const NamedTensor* const tensor = file_.find(name);
    if (!tensor) throw std::runtime_error("no tensor " + name);
    return *tensor;
  }
  SafetensorsFile file_;
};

}  // namespace gemel::testing
