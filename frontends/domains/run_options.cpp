#include "frontends/domains/run_options.h"

#include <fmt/format.h>

#include <utility>

#include "engine/base/accepted.h"
#include "engine/base/error.h"

namespace gemel::domains {
namespace {

std::string dashed(std::string_view name) { return "--" + std::string(name); }

}  // namespace

void RunOptions::set(const std::string& name, OptionValue value, bool given) { options_.insert_or_assign(name, Option{std::move(value), given}); }

bool RunOptions::has(std::string_view name) const {
  const auto found = options_.find(name);
  return found != options_.end() && !std::holds_alternative<std::monostate>(found->second.value);
}

bool RunOptions::given(std::string_view name) const { return has(name) && options_.find(name)->second.given; }

template <class T>
const T& RunOptions::as(std::string_view name) const {
  const auto found = options_.find(name);
  const T* value = found == options_.end() ? nullptr : std::get_if<T>(&found->second.value);
  if (!value) throw InternalError(fmt::format("options: {} is none of this run's, or of another type", name));
  return *value;
}

bool RunOptions::flag(std::string_view name) const { return as<bool>(name); }
double RunOptions::number(std::string_view name) const { return as<double>(name); }
const std::string& RunOptions::text(std::string_view name) const { return as<std::string>(name); }
const std::vector<std::string>& RunOptions::texts(std::string_view name) const { return as<std::vector<std::string>>(name); }

std::int64_t RunOptions::whole(std::string_view name, double low, double high) const {
  const std::int64_t value = as<std::int64_t>(name);
  check_range(dashed(name), static_cast<double>(value), low, high);
  return value;
}

std::vector<std::int64_t> RunOptions::wholes(std::string_view name, std::int64_t low, std::int64_t high) const {
  return parse_numbers(dashed(name), text(name), low, high);
}

const std::string& RunOptions::choice(std::string_view name, const std::vector<std::string>& accepted) const {
  check_choice(dashed(name), text(name), accepted);
  return text(name);
}

bool RunOptions::on(std::string_view name) const { return choice(name, {"on", "off"}) == "on"; }

}  // namespace gemel::domains
