// The options that name a data set, and what commands compute with that need none.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "datasets/pictures/picture_dataset.h"
#include "frontends/cli/options/arguments.h"
#include "frontends/cli/options/run_spec.h"
#include "frontends/domains/workload.h"

namespace gemel::cli {

void add_dataset_options(po::options_description& options);
/// Reads --classes and --model too, which the commands describe. @throws UsageError
datasets::DatasetOptions dataset_options(const po::variables_map& values, std::uint64_t seed);

/// --config, which models of ratings and speech take too; --vocab, --cased and --max-length, of models that take texts; --length-buckets, of those and
/// of speech.
void add_text_options(po::options_description& options);
/// Those that are given would do nothing. @param beside  "--model resnet18, which takes pictures"  @throws UsageError
void refuse_text_options(const po::variables_map& values, const std::string& beside);
/// What train computes with, by --model. @throws UsageError where options of another kind of model are given, or lack what it needs
WorkloadOptions workload_options(const po::variables_map& values, std::uint64_t seed);

/// A spec with what defaults become of these data.
Json resolved(Json spec, const WorkloadOptions& work);

/// Of --input, where data are made up.
inline constexpr const char* kInputHelp =
    "CxHxW of a picture (default: the model's usual, 3x224x224 for most), tokens of a text (default 128), frames of speech (default 400), or UxI: users and "
    "items (default 6040x3706)";
/// --config alone.
void add_config_option(po::options_description& options);
/// Of data that are made up: samples of one shape.
struct MadeUp {
  std::string input;  // "3x224x224" of a picture, "128" tokens of a text, "400" frames of speech, "6040x3706" users and items
  WorkloadOptions work;
};
/// What a command computes with that needs no data, for each of --input's: what --config and --classes say, so many samples.
std::vector<MadeUp> made_up(const po::variables_map& values, const std::string& model, std::int64_t samples, std::uint64_t seed = 1);
/// The same where --input takes one.
MadeUp made_up_once(const po::variables_map& values, const std::string& model, std::int64_t samples, std::uint64_t seed = 1);

}  // namespace gemel::cli
