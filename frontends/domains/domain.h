// Domain: a kind of work, such as the classification of pictures. Each is one file, which defines its record, and one line in domain.cpp.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontends/domains/infer_request.h"
#include "frontends/domains/run_options.h"
#include "frontends/domains/workload.h"

namespace gemel::domains {

/// Commands that take an option, each with those before it.
enum class OptionUse {
  model,     // all that make a model
  inputs,    // train, eval and infer, which read inputs
  data_set,  // train and eval, which read data sets
};

/// An option that models of some kinds take, and those of others refuse.
struct OptionDef {
  const char* name;
  OptionValue standard;  // the default, which is of the option's type
  std::string doc;       // empty: each command describes it itself
  OptionUse use;
};

/// Data that are made up, all samples of one shape.
struct MadeUp {
  std::string input;  // the shape, as --input has it: "3x224x224"
  OpenWorkload open;
};

struct Domain {
  const char* name;   // "texts": its data sets are listed under it
  const char* takes;  // completes "--model bert, which ...": "takes texts"
  std::vector<std::string> (*models)();
  std::vector<std::string> (*data_sets)();
  std::vector<const OptionDef*> options;
  const char* made_up_input;  // what --input says of data that are made up, for the help; null: as another domain has it
  bool smooths_labels = false;
  const char* augmentation = "none";  // --augment's default
  /// Whether a model has repeated blocks, which the backward pass can compute again.
  bool (*has_blocks)(const std::string& model);
  /// Checks the options that name a data set. @throws UsageError
  OpenWorkload (*read)(const RunOptions& options);
  /// Makes data up for each of --input's shapes. @throws UsageError
  std::vector<MadeUp> (*made_up)(const RunOptions& options, std::int64_t samples);
  /// Opens what `gemel infer` runs on; null: its models infer nothing alone. @throws UsageError, DataError
  InferRequest (*infer)(const RunOptions& options) = nullptr;
  /// Options whose defaults depend on the model, with the values that they have then. Null: none.
  std::vector<std::pair<std::string, OptionValue>> (*resolved)(const RunOptions& options) = nullptr;
};

/// The data set that is made up, which every domain has.
inline constexpr const char* kSynthetic = "synthetic";

/// All domains, in the order of the help.
std::span<const Domain* const> all();
/// The domain of options' --model. @throws UsageError for a name that none has
const Domain& of_model(const RunOptions& options);
/// Names of all models. @param infer  only of those that `gemel infer` takes
std::vector<std::string> model_names(bool infer = false);

/// As `Domain::read`, for the domain of --model, where options of other domains are refused.
OpenWorkload read(const RunOptions& options);
/// As `Domain::made_up`. @param samples  to train with at least
std::vector<MadeUp> made_up(const RunOptions& options, std::int64_t samples);
/// As `Domain::infer`.
InferRequest infer(const RunOptions& options);

/// --limit, and --seed; 1 where the command has none.
std::int64_t sample_limit(const RunOptions& options);
std::uint64_t data_seed(const RunOptions& options);
/// --label-smoothing; 0 where the command has none. @throws UsageError unless it is 0..1
double label_smoothing(const RunOptions& options);
/// --classes. @param least  1, or 0 where 0 leaves it to the data or the weights  @throws UsageError
std::int64_t class_count(const RunOptions& options, std::int64_t least);
/// --dataset, and --data, which must be given where a data set reads files. @param files  what they are  @throws UsageError
std::string checked_data_set(const RunOptions& options, const std::vector<std::string>& names, const char* files);
/// @throws UsageError naming the option, where it was given
void refuse(const RunOptions& options, std::initializer_list<const char*> names, const std::string& beside, const char* accepted = "without it");

/// Options of more than one domain.
extern const OptionDef kClasses, kAugment, kConfig, kLengthBuckets;

}  // namespace gemel::domains
