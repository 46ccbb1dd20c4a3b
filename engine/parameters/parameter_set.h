// ParameterSet: the named state of a model, as optimizers, checkpoints and data parallelism see it. They never see modules.
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

/// Parameters (trainable where they want a gradient) and buffers (no history), each in the order of definition.
/// The values are handles: what is written through them is what the model reads.
class ParameterSet {
 public:
  /// @throws UsageError for a name that is already there
  void add_parameter(std::string name, Value value);
  /// @throws UsageError for a name that is already there, or a buffer that wants a gradient
  void add_buffer(std::string name, Value value);

  /// A temporary set gives its vector away, so that a loop over `module.parameters().parameters()` does not read freed memory.
  std::span<const NamedValue> parameters() const& { return parameters_; }
  std::vector<NamedValue> parameters() && { return std::move(parameters_); }
  std::span<const NamedValue> buffers() const& { return buffers_; }
  std::vector<NamedValue> buffers() && { return std::move(buffers_); }
  /// The parameters that want a gradient, in order, one under two names once: what `gradient` is asked for and an optimizer updates.
  std::vector<NamedValue> trainable() const;
  /// The parameter or buffer of that name, or null; of a temporary set the handle itself.
  const Value* find(std::string_view name) const&;
  std::optional<Value> find(std::string_view name) &&;

  /// Elements of all parameters; buffers do not count.
  std::int64_t parameter_elements() const;
  /// Bytes of parameters and buffers.
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

/// The handles alone.
Values values_of(std::span<const NamedValue> named);

}  // namespace gemel
