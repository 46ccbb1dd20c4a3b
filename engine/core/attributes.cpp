#include "engine/core/attributes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>

#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel {
namespace {

template <class T>
const T& get(const Attributes& attributes, std::string_view name) {
  const Attributes::Item* item = attributes.find(name);
  if (!item) throw InternalError(fmt::format("attributes: '{}' is missing; given: {}", name, to_string(attributes)));
  const T* value = std::get_if<T>(item);
  if (!value) throw InternalError(fmt::format("attributes: '{}' is of type {}", name, to_string(type_of(*item))));
  return *value;
}

bool same(const Attributes::Entry& a, const Attributes::Entry& b) {
  const double *x = std::get_if<double>(&a.second), *y = std::get_if<double>(&b.second);
  return a.first == b.first && (x && y ? std::bit_cast<std::uint64_t>(*x) == std::bit_cast<std::uint64_t>(*y) : a.second == b.second);
}

}  // namespace

std::string_view to_string(Type type) {
  constexpr std::array<std::string_view, 9> names{"integer", "real", "boolean", "text", "integers", "shape", "dtype", "program", "state"};
  return names[at(static_cast<int>(type))];
}

std::int64_t Attributes::integer(std::string_view name) const { return get<std::int64_t>(*this, name); }
double Attributes::real(std::string_view name) const { return get<double>(*this, name); }
bool Attributes::boolean(std::string_view name) const { return get<bool>(*this, name); }
const std::string& Attributes::text(std::string_view name) const { return get<std::string>(*this, name); }
const std::vector<std::int64_t>& Attributes::integers(std::string_view name) const { return get<std::vector<std::int64_t>>(*this, name); }
const Shape& Attributes::shape(std::string_view name) const { return get<Shape>(*this, name); }
DType Attributes::dtype(std::string_view name) const { return get<DType>(*this, name); }
const std::shared_ptr<const Program>& Attributes::program(std::string_view name) const { return get<std::shared_ptr<const Program>>(*this, name); }
const std::shared_ptr<State>& Attributes::state(std::string_view name) const { return get<std::shared_ptr<State>>(*this, name); }

const Attributes::Item* Attributes::find(std::string_view name) const {
  for (const Entry& e : entries_)
    if (e.first == name) return &e.second;
  return nullptr;
}

bool Attributes::operator==(const Attributes& other) const { return std::ranges::equal(entries_, other.entries_, same); }

void Attributes::set(std::string_view name, Item item) {
  for (Entry& e : entries_)
    if (e.first == name) {
      e.second = std::move(item);
      return;
    }
  entries_.emplace_back(std::string(name), std::move(item));
}

std::string to_string(const Attributes::Item& item) {
  struct Print {
    std::string operator()(std::int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return fmt::format("{}", v); }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(const std::string& v) const { return "\"" + v + "\""; }
    std::string operator()(const std::vector<std::int64_t>& v) const { return fmt::format("[{}]", fmt::join(v, ", ")); }
    std::string operator()(const Shape& v) const { return to_string(v); }
    std::string operator()(DType v) const { return std::string(to_string(v)); }
    std::string operator()(const std::shared_ptr<const Program>&) const { return "<program>"; }
    std::string operator()(const std::shared_ptr<State>&) const { return "<state>"; }
  };
  return std::visit(Print{}, item);
}

std::string to_string(const Attributes& attributes) {
  std::string out;
  for (const auto& [name, item] : attributes.entries()) out += (out.empty() ? "" : ", ") + name + "=" + to_string(item);
  return out;
}

}  // namespace gemel
