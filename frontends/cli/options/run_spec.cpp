#include "frontends/cli/options/run_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <any>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <set>
#include <typeinfo>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "frontends/cli/system/console.h"
#include "frontends/domains/domain.h"
#include "parallel/transport/mpi_communicator.h"

namespace gemel::cli {
namespace {

constexpr const char *kCommand = "command", *kSpec = "spec", *kPrint = "print-spec";
/// How a launcher starts it: keys of every spec, which no option of the run has.
constexpr const char* kOfLaunch[] = {"np", "hosts", "env"};
bool is_of_launch(const std::string& key) { return std::ranges::find(kOfLaunch, key) != std::end(kOfLaunch); }

using Texts = std::vector<std::string>;

const po::typed_value_base* type_of(const po::option_description& option) { return dynamic_cast<const po::typed_value_base*>(option.semantic().get()); }
bool is(const po::option_description& option, const std::type_info& type) { return type_of(option) && type_of(option)->value_type() == type; }

const char* accepted_json(const po::option_description& option) {
  if (is(option, typeid(bool))) return "true or false";
  if (is(option, typeid(std::int64_t)) || is(option, typeid(int))) return "a whole number";
  if (is(option, typeid(double))) return "a number";
  return is(option, typeid(Texts)) ? "a text, or a list of texts" : "a text";
}

Json json_of(const domains::OptionValue& value) {
  return std::visit(
      [](const auto& v) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::monostate>)
          return nullptr;
        else
          return v;
      },
      value);
}

Json default_of(const po::option_description& option) {
  boost::any value;
  return option.semantic()->apply_default(value) ? json_of(option_value(value)) : Json();
}

[[noreturn]] void refuse_type(const po::option_description& option, const Json& value) {
  throw UsageError(
      fmt::format("spec: {}: {} is not accepted; accepted: {}: {}", option.long_name(), value.dump(), accepted_json(option), option.description()));
}

/// As the command line has it.
std::string word_of(const po::option_description& option, const Json& value) {
  const bool is_text = is(option, typeid(std::string)) || is(option, typeid(Texts));
  const bool is_whole = is(option, typeid(std::int64_t)) || is(option, typeid(int));
  const bool fits = is_text ? value.is_string() : is_whole ? value.is_number_integer() : value.is_number();
  if (!fits) refuse_type(option, value);
  return is_text ? value.get<std::string>() : value.dump();
}

void add_words(Texts& out, const po::option_description& option, const Json& value) {
  const std::string name = "--" + option.long_name();
  if (value.is_null() || value == default_of(option)) return;
  if (is(option, typeid(bool))) {
    if (!value.is_boolean()) refuse_type(option, value);
    if (value.get<bool>()) out.push_back(name);
    return;
  }
  const bool repeats = is(option, typeid(Texts));
  for (const Json& one : (repeats && value.is_array()) ? value : Json::array({value})) out.push_back(name + "=" + word_of(option, one));
}

const po::option_description& option_of(const std::string& key, const po::options_description& options) {
  const auto* found = options.find_nothrow(key, false);
  if (found && key != kSpec && key != kPrint) return *found;
  Texts names;
  for (const auto& o : options.options()) names.push_back(o->long_name());
  const std::string near = nearest(key, names);
  throw UsageError(
      fmt::format("spec: key '{}' is unknown{}; accepted: the long options of the command", key, near.empty() ? "" : ", did you mean '" + near + "'?"));
}

int processes_here() {
  const auto launch = parallel::mpi_launch();
  return launch ? launch->size : 1;
}

bool names(const Texts& words, const std::string& option) {
  return std::ranges::any_of(words, [&](const std::string& w) { return w == "--" + option || w.starts_with("--" + option + "="); });
}

/// What stands behind --spec; empty: it is not given.
std::string file_in(const Texts& words) {
  const std::string option = std::string("--") + kSpec;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == option && i + 1 < words.size()) return words[i + 1];
    if (words[i].starts_with(option + "=")) return words[i].substr(option.size() + 1);
  }
  return "";
}

/// Once: a command looks at its spec more than once.
const std::string& standard_input() {
  static const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  return text;
}

/// @param file  or the object itself, which begins with its brace
Json read_spec(const std::string& file) {
  std::string text;
  if (file.starts_with('{'))
    text = file;
  else if (file == "-")
    text = standard_input();
  else
    text = as_text(read_whole(file));
  std::set<std::string> keys;
  std::string twice;
  const auto note_keys = [&](int depth, Json::parse_event_t event, const Json& key) {
    if (event == Json::parse_event_t::key && depth == 1 && !keys.insert(key.get<std::string>()).second) twice = key.get<std::string>();
    return true;
  };
  Json spec = Json::parse(text, note_keys, false);
  if (!spec.is_object()) throw DataError(fmt::format("spec: {} is no JSON object; accepted: what --print-spec writes", file));
  if (!twice.empty()) throw DataError(fmt::format("spec: {}: key '{}' stands there twice; accepted: once", file, twice));
  return spec;
}

}  // namespace

void add_spec_options(po::options_description& options) {
  auto option = options.add_options();
  option(kSpec, po::value<std::string>(),
         "a run as JSON, as --print-spec writes it: a file, - for standard input, or the object itself. Options on the line override it");
  option(kPrint, po::bool_switch(), "print the run that this line means as JSON, and end");
}

Json spec_file(const Texts& words) {
  const std::string file = file_in(words);
  return file.empty() ? Json() : read_spec(file);
}

/// What the spec says of processes is the launcher's to do.
void require_launched(const Texts& words) {
  const Json spec = spec_file(words);
  if (spec.is_null() || !spec.contains("np")) return;
  const Json& np = spec["np"];
  if (!np.is_number_integer() || np < 1) throw UsageError(fmt::format("spec: np: {} is not accepted; accepted: a whole number of processes", np.dump()));
  if (const int here = processes_here(); np != here)
    throw UsageError(
        fmt::format("spec: np: {} processes are asked for, {} {} here; accepted: gemel launch --spec FILE", np.dump(), here, here == 1 ? "is" : "are"));
}

void require_option(const std::string& key, const po::options_description& options) {
  if (!is_of_launch(key)) option_of(key, options);
}

Texts with_spec(const std::string& command, const po::options_description& options, const Texts& words) {
  Json spec = spec_file(words);
  if (spec.is_null()) return words;
  if (const Json of = spec.value(kCommand, Json()); of != command)
    throw UsageError(fmt::format("spec: command: {} is given with gemel {}; accepted: \"{}\"", of.dump(), command, command));
  for (const auto& o : options.options())
    if (names(words, o->long_name()) && o->long_name() != kSpec && o->long_name() != kPrint) spec.erase(o->long_name());
  Texts out = words_of_spec(spec, options);
  out.insert(out.end(), words.begin(), words.end());
  return out;
}

Texts words_of_spec(const Json& spec, const po::options_description& options) {
  Texts out;
  for (const auto& [key, value] : spec.items())
    if (key != kCommand && !is_of_launch(key)) add_words(out, option_of(key, options), value);
  return out;
}

Json spec_of(const std::string& command, const po::options_description& options, const po::variables_map& values) {
  Json out{{kCommand, command}, {"np", processes_here()}, {"hosts", ""}, {"env", Json::array()}};
  for (const auto& option : options.options()) {
    const std::string& name = option->long_name();
    if (name != kSpec && name != kPrint) out[name] = values.count(name) ? json_of(option_value(values[name].value())) : Json();
  }
  return out;
}

void print_if_asked(const po::variables_map& values, const Json& spec) {
  if (!values[kPrint].as<bool>()) return;
  if (speaks()) fmt::print("{}\n", text_of(spec, 1));
  throw HelpWanted();
}

std::string text_of(const Json& spec, int indent) { return spec.dump(indent, ' ', false, Json::error_handler_t::replace); }

Json resolved(Json spec, const domains::RunOptions& options) {
  const domains::Domain& domain = domains::of_model(options);
  if (domain.resolved)
    for (const auto& [name, value] : domain.resolved(options)) spec[name] = json_of(value);
  return spec;
}

std::vector<Json> single_specs(const Json& spec, const std::vector<std::string>& lists) {
  std::vector<Json> out{spec};
  for (const auto& [key, value] : spec.items()) {
    const bool is_list = std::ranges::find(lists, key) != lists.end();
    if (!value.is_array() || (is_list && std::ranges::none_of(value, &Json::is_array))) continue;
    if (value.empty()) throw UsageError(fmt::format("spec: {}: an empty list is given; accepted: a value or more", key));
    std::vector<Json> all;
    for (const Json& one : out)
      for (const Json& v : value) {
        all.push_back(one);
        all.back()[key] = v;
      }
    out = std::move(all);
  }
  return out;
}

}  // namespace gemel::cli
