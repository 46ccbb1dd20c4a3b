// A run as data: the options of a command as JSON, and JSON as a command line. A key is an option's long name; booleans, numbers, texts and lists of
// texts are JSON's own; null is an option that has no value.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "frontends/cli/options/arguments.h"

namespace gemel::cli {

using Json = nlohmann::ordered_json;

/// A spec as text, where bytes of a path that are no UTF-8 are replaced. @param indent  of its lines; -1: one line
std::string text_of(const Json& spec, int indent = -1);

/// Adds --spec and --print-spec.
void add_spec_options(po::options_description& options);

/// The words of a command, with those of its --spec FILE before them; what the words name is left out of the file's. Without --spec: the same words.
/// @param command  that the file must be of: "train", "bench train"
/// @throws UsageError naming the key that is unknown, of another type, or a list where one value is taken; DataError for a file that is no JSON object
std::vector<std::string> with_spec(const std::string& command, const po::options_description& options, const std::vector<std::string>& words);

/// What the --spec FILE among these words has; null: there is none. @throws DataError for a file that is no JSON object
Json spec_file(const std::vector<std::string>& words);
/// @throws UsageError where the file's np asks for other processes than there are
void require_launched(const std::vector<std::string>& words);
/// @throws UsageError for a key that is no option, with the nearest
void require_option(const std::string& key, const po::options_description& options);

/// Every option's value: {"command": .., "model": .., ..}, in the order of the help.
Json spec_of(const std::string& command, const po::options_description& options, const po::variables_map& values);

/// What --print-spec asks for. @throws HelpWanted then: there is nothing more to do
void print_if_asked(const po::variables_map& values, const Json& spec);

/// The command line of a spec, without the command and without what is as by default.
/// @throws UsageError as `with_spec`
std::vector<std::string> words_of_spec(const Json& spec, const po::options_description& options);

/// A spec in which options whose defaults depend on the model have the values of this one.
Json resolved(Json spec, const domains::RunOptions& options);

/// One spec for each combination of the values of its lists, the first key's slowest.
/// @param lists  options that are lists themselves, of which a list of lists has several
std::vector<Json> single_specs(const Json& spec, const std::vector<std::string>& lists);

}  // namespace gemel::cli
