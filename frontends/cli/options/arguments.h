// Command lines: options by name, with help, ranges and the nearest valid name for a wrong one.
#pragma once
#include <boost/program_options.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/accepted.h"
#include "frontends/domains/run_options.h"

namespace gemel::cli {

namespace po = boost::program_options;

/// What a command is asked for with `--help`: not an error.
struct HelpWanted {};

/// Parses a command's arguments.
/// @param usage  the command's name, and behind it what the first line of its help shows before the options
/// @throws UsageError for unknown options (with the nearest one), missing or ill-formed values
/// @throws HelpWanted after printing the help
po::variables_map parse(const std::string& usage, const std::string& about, const po::options_description& options, const std::vector<std::string>& arguments,
                        const po::positional_options_description& positional = {});

/// Tells if an option stands on the command line; false if the command has no such option.
bool is_given(const po::variables_map& values, const char* name);
/// The value of a whole-number option. @throws UsageError unless low <= value <= high
std::int64_t whole_number(const po::variables_map& values, const std::string& name, double low, double high);
/// An option's bytes: a whole number, or one with K, M, G or T behind it, powers of 1024. @throws UsageError
std::int64_t byte_count(const po::variables_map& values, const std::string& name);
/// The values of an option that takes one or several, such as "1,8,16". @throws UsageError unless each is one of low..high
std::vector<std::int64_t> whole_numbers(const po::variables_map& values, const std::string& name, std::int64_t low, std::int64_t high);

/// A value of Boost's parser; none for a type that no option has.
domains::OptionValue option_value(const boost::any& value);
/// The options as domains read them.
domains::RunOptions run_options(const po::variables_map& values);

}  // namespace gemel::cli
