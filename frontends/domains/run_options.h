// The options of a run by name, whoever read them: a command line, a spec or a program.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace gemel::domains {

/// An option's value; std::monostate where it has none.
using OptionValue = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::string>>;

class RunOptions {
 public:
  /// @param given  false where the value is a default
  void set(const std::string& name, OptionValue value, bool given);
  /// Whether the option has a value.
  bool has(std::string_view name) const;
  /// Whether the value was given, not a default.
  bool given(std::string_view name) const;

  /// Values of their types. @throws InternalError where the option is none of this run's, or of another type
  bool flag(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<std::string>& texts(std::string_view name) const;

  /// @throws UsageError unless low <= value <= high
  std::int64_t whole(std::string_view name, double low, double high) const;
  /// Whole numbers with commas between them. @throws UsageError unless each is one of low..high
  std::vector<std::int64_t> wholes(std::string_view name, std::int64_t low, std::int64_t high) const;
  /// @throws UsageError unless the text is one of these
  const std::string& choice(std::string_view name, const std::vector<std::string>& accepted) const;
  /// Whether an option that takes "on" or "off" is on. @throws UsageError for another text
  bool on(std::string_view name) const;

 private:
  struct Option {
    OptionValue value;
    bool given;
  };
  template <class T>
  const T& as(std::string_view name) const;

  std::map<std::string, Option, std::less<>> options_;
};

}  // namespace gemel::domains
