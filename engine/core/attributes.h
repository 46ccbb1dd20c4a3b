// Attributes: parameters of an operator beside its inputs, such as an axis. Named, typed and ordered, so that they compare, hash and print.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/shape.h"

namespace gemel {

struct Program;

/// Object that an operator's `execute` uses beside its inputs, such as a communicator or an observer. Attributes compare it by identity; it cannot
/// be saved to a file.
class State {
 public:
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  virtual ~State() = default;
};

/// Types of attributes, in the order of the alternatives of Attributes::Item.
enum class Type { integer, real, boolean, text, integers, shape, dtype, program, state };
std::string_view to_string(Type type);

class Attributes {
 public:
  using Item =
      std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>, Shape, DType, std::shared_ptr<const Program>, std::shared_ptr<State>>;
  using Entry = std::pair<std::string, Item>;

  Attributes() = default;
  Attributes(std::initializer_list<Entry> entries) : entries_(entries) {}

  /// Getters by name. @throws InternalError if the attribute is missing or has another type
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  bool boolean(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<std::int64_t>& integers(std::string_view name) const;
  const Shape& shape(std::string_view name) const;
  DType dtype(std::string_view name) const;
  const std::shared_ptr<const Program>& program(std::string_view name) const;
  const std::shared_ptr<State>& state(std::string_view name) const;

  bool has(std::string_view name) const { return find(name) != nullptr; }
  const Item* find(std::string_view name) const;
  void set(std::string_view name, Item item);
  const std::vector<Entry>& entries() const { return entries_; }
  /// Compares reals by their bits: 0.0 differs from -0.0, which give different results, and NaN equals itself.
  bool operator==(const Attributes& other) const;

 private:
  std::vector<Entry> entries_;
};

/// "axis=1, keep=true"
std::string to_string(const Attributes& attributes);
std::string to_string(const Attributes::Item& item);
inline Type type_of(const Attributes::Item& item) { return static_cast<Type>(item.index()); }

}  // namespace gemel
