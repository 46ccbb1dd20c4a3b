#include "frontends/cli/options/arguments.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <typeinfo>

#include "engine/base/error.h"
#include "frontends/cli/options/output_conflicts.h"

namespace gemel::cli {
namespace {

std::vector<std::string> names_of(const po::options_description& options) {
  std::vector<std::string> out;
  for (const auto& o : options.options()) out.push_back("--" + o->long_name());
  return out;
}

std::string kind_of(const po::option_description& option) {
  const auto* typed = dynamic_cast<const po::typed_value_base*>(option.semantic().get());
  if (!typed) return "";
  const bool is_whole = typed->value_type() == typeid(std::int64_t) || typed->value_type() == typeid(int);
  return is_whole ? "a whole number: " : typed->value_type() == typeid(double) ? "a number: " : "";
}

/// What an option takes, in the words of the help.
std::string accepted_by(const po::options_description& options, const std::string& name) {
  const auto* option = options.find_nothrow(name.substr(std::min(name.find_first_not_of('-'), name.size())), false);
  return option ? fmt::format("; accepted: {}{}", kind_of(*option), option->description()) : "";
}

std::string without_value(const std::string& option) { return option.substr(0, option.find('=')); }

/// How a command is called: gemel's own by its name after it, a program of its own ("gemel_kernels") by its name.
std::string call_of(const std::string& command) { return command.starts_with("gemel_") ? command : "gemel " + command; }

/// @param name  of the option, with dashes before it
UsageError empty_value(const std::string& command, const po::options_description& options, const std::string& name) {
  return UsageError(fmt::format("{}: {} is given an empty value{}", command, name, accepted_by(options, name)));
}

/// No guessing: an abbreviation that is unique today is not tomorrow.
constexpr int kStyle = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;

/// What an option was given: "--lr fast" or "--lr=fast".
std::string value_of(const std::string& option, const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].starts_with(option + "=")) return arguments[i].substr(option.size() + 1);
    if (arguments[i] == option && i + 1 < arguments.size()) return arguments[i + 1];
  }
  return "";
}

/// Of a value that was refused: whether it is a number that its type does not reach.
bool is_beyond_its_type(const std::string& text) {
  const std::size_t digits = text.find_first_not_of("+-");
  if (digits > 1 || !std::isdigit(static_cast<unsigned char>(text[digits]))) return false;  // npos: there are none
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return *end == '\0' && (std::isinf(value) || text.find_first_not_of("0123456789", digits) == text.npos);
}

/// In our words, and what is accepted: Boost's differ from one version to another.
std::string what_is_wrong(const po::error_with_option_name& e, const po::options_description& options, const std::vector<std::string>& words) {
  const std::string option = e.get_option_name(), accepted = accepted_by(options, option);
  if (dynamic_cast<const po::multiple_occurrences*>(&e)) return option + " is given more than once; accepted: once";
  if (dynamic_cast<const po::required_option*>(&e)) return option + " is missing" + accepted;
  const auto* syntax = dynamic_cast<const po::invalid_syntax*>(&e);
  if (syntax && syntax->kind() == po::invalid_syntax::extra_parameter) return fmt::format("{0} is given a value; accepted: {0} alone", option);
  const std::string value = syntax ? "" : value_of(option, words);
  if (is_beyond_its_type(value)) return fmt::format("{}: {} is out of range{}", option, value, accepted);
  return fmt::format("{}{}{}", option, syntax ? " is given without a value" : fmt::format(": '{}' is not accepted", value), accepted);
}

/// The first word that is no option, no option's value and more than the command takes.
std::string surplus_word(const po::options_description& options, const std::vector<std::string>& words, const po::positional_options_description& positional) {
  for (const auto& given : po::command_line_parser(words).options(options).style(kStyle).run().options)
    if (given.position_key >= 0 && static_cast<unsigned>(given.position_key) >= positional.max_total_count()) return given.original_tokens.front();
  return "";
}

constexpr std::array<std::string_view, 2> kTexts{"prompt", "text"};  // a text may be empty

/// `--text=` as two words, of which the second is empty: the parser takes no empty value behind a "=".
std::vector<std::string> with_empty_texts_apart(const std::vector<std::string>& arguments) {
  std::vector<std::string> out;
  for (const std::string& a : arguments) {
    const bool is_empty = std::ranges::any_of(kTexts, [&](std::string_view text) { return a == fmt::format("--{}=", text); });
    out.push_back(is_empty ? a.substr(0, a.size() - 1) : a);
    if (is_empty) out.emplace_back();
  }
  return out;
}

/// An empty value names nothing: it is what an unset variable of a shell leaves.
void refuse_empty(const std::string& command, const po::options_description& options, const po::variables_map& values) {
  for (const auto& [name, value] : values) {
    if (value.defaulted() || std::ranges::find(kTexts, name) != kTexts.end()) continue;
    const auto* text = boost::any_cast<std::string>(&value.value());
    const auto* texts = boost::any_cast<std::vector<std::string>>(&value.value());
    if ((text && text->empty()) || (texts && std::ranges::find(*texts, "") != texts->end())) throw empty_value(command, options, "--" + name);
  }
}

}  // namespace

po::variables_map parse(const std::string& usage, const std::string& about, const po::options_description& options, const std::vector<std::string>& arguments,
                        const po::positional_options_description& positional) {
  const std::string command = usage.substr(0, usage.find(' '));
  po::options_description all;
  all.add(options);
  all.add_options()("help,h", "show this help");
  const auto unknown = [&](const std::string& given) {
    const std::string near = nearest(given, names_of(all));
    return UsageError(fmt::format("{}: option '{}' is unknown{}; `{} --help` lists them", command, given, near.empty() ? "" : ", did you mean '" + near + "'?",
                                  call_of(command)));
  };
  const std::vector<std::string> words = with_empty_texts_apart(arguments);
  try {
    po::variables_map values;
    po::store(po::command_line_parser(words).options(all).positional(positional).style(kStyle).run(), values);
    if (values.count("help")) {
      fmt::print("usage: {} [options]\n{}\n\n{}", call_of(usage), about, fmt::streamed(all));
      throw HelpWanted();
    }
    po::notify(values);
    refuse_empty(command, all, values);
    check_outputs_apart(values);
    return values;
  } catch (const po::unknown_option& e) {
    throw unknown(without_value(e.get_option_name()));
  } catch (const po::error_with_option_name& e) {
    const auto* syntax = dynamic_cast<const po::invalid_syntax*>(&e);
    if (syntax && syntax->kind() == po::invalid_syntax::empty_adjacent_parameter) {  // "--save=", met before it is looked for
      if (accepted_by(all, e.get_option_name()).empty()) throw unknown(e.get_option_name());
      throw empty_value(command, all, e.get_option_name());
    }
    throw UsageError(fmt::format("{}: {}", command, what_is_wrong(e, all, words)));
  } catch (const po::too_many_positional_options_error&) {
    const unsigned most = positional.max_total_count();
    throw UsageError(fmt::format("{}: '{}' is {}; accepted: {}options, which begin with --; `{} --help` lists them", command,
                                 surplus_word(all, words, positional), most ? "one word too many" : "no option",
                                 most ? positional.name_for_position(0) + " and " : "", call_of(command)));
  }
}

std::int64_t whole_number(const po::variables_map& values, const std::string& name, double low, double high) {
  const auto value = values[name].as<std::int64_t>();
  check_range("--" + name, static_cast<double>(value), low, high);
  return value;
}

std::int64_t byte_count(const po::variables_map& values, const std::string& name) {
  constexpr std::string_view units = "KMGT";
  constexpr double most = 1e18;
  const auto text = values[name].as<std::string>();
  const char* end = text.data() + text.size();
  std::int64_t value = 0;
  const auto [next, error] = std::from_chars(text.data(), end, value);
  const std::size_t unit = next < end ? units.find(static_cast<char>(std::toupper(static_cast<unsigned char>(*next)))) : std::string_view::npos;
  if (error != std::errc() || next + (unit != std::string_view::npos) != end)
    throw UsageError(fmt::format("--{}: '{}' is not accepted; accepted: bytes, such as 1000000, 512M or 8G", name, text));
  const int shift = unit == std::string_view::npos ? 0 : 10 * (static_cast<int>(unit) + 1);
  check_range("--" + name, std::ldexp(static_cast<double>(value), shift), 0, most);
  return value << shift;
}

std::vector<std::int64_t> whole_numbers(const po::variables_map& values, const std::string& name, std::int64_t low, std::int64_t high) {
  return parse_numbers("--" + name, values[name].as<std::string>(), low, high);
}

domains::OptionValue option_value(const boost::any& value) {
  if (const auto* flag = boost::any_cast<bool>(&value)) return *flag;
  if (const auto* small = boost::any_cast<int>(&value)) return std::int64_t{*small};
  if (const auto* whole = boost::any_cast<std::int64_t>(&value)) return *whole;
  if (const auto* number = boost::any_cast<double>(&value)) return *number;
  if (const auto* text = boost::any_cast<std::string>(&value)) return *text;
  if (const auto* texts = boost::any_cast<std::vector<std::string>>(&value)) return *texts;
  return {};
}

bool is_given(const po::variables_map& values, const char* name) { return values.count(name) && !values[name].defaulted(); }

domains::RunOptions run_options(const po::variables_map& values) {
  domains::RunOptions out;
  for (const auto& [name, value] : values) out.set(name, option_value(value.value()), !value.defaulted());
  return out;
}

}  // namespace gemel::cli
