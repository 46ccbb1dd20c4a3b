// ParameterSet: named parameters and buffers of a model. Optimizers, checkpoints and data parallelism use it instead of modules.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/value.h"

namespace gemel {

struct NamedValue {
  std::string name;
  Value value;
};

/// Parameters (trainable if they want a gradient) and buffers (without history), each in order of definition. The values are handles: writes through
/// them change the model.
class ParameterSet {
 public:
  /// @throws UsageError if the name is taken
  void add_parameter(std::string name, Value value);
  /// @throws UsageError if the name is taken or the buffer wants a gradient
  void add_buffer(std::string name, Value value);

  /// Called on a temporary set, the getters move the vector out, so that a loop over `module.parameters().parameters()` is safe.
  std::span<const NamedValue> parameters() const& { return parameters_; }
  std::vector<NamedValue> parameters() && { return std::move(parameters_); }
  std::span<const NamedValue> buffers() const& { return buffers_; }
  std::vector<NamedValue> buffers() && { return std::move(buffers_); }
  /// Parameters that want a gradient, in order; a parameter with two names occurs once. Optimizers update these.
  std::vector<NamedValue> trainable() const;
  /// Parameter or buffer of that name, or null. A temporary set returns the handle itself.
  const Value* find(std::string_view name) const&;
  std::optional<Value> find(std::string_view name) &&;

  /// Number of elements of all parameters, without buffers.
  std::int64_t parameter_elements() const;
  /// Size of all parameters and buffers.
  std::int64_t bytes() const;

 private:
  struct Place {
    bool is_buffer;
    std::size_t index;
  };
  void claim(const std::string& name, Place place);
  std::vector<NamedValue> parameters_, buffers_;
  std::map<std::string, Place, std::less<>> places_;
};

/// The values without their names.
Values values_of(std::span<const NamedValue> named);

}  // namespace gemel
