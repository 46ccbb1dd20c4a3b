// What a command computes with: a model, the data that it is given, and the task over both. Commands know no kind of model.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/pictures/picture_dataset.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/optim/optimizer.h"
#include "frontends/train/checkpoint/run_identity.h"
#include "frontends/train/tasks/task.h"

namespace gemel::cli {

/// What a model is made with besides what its data say.
struct ModelChanges {
  std::optional<double> dropout{};
  models::RecomputedParts recompute = models::RecomputedParts::none;
};

class Workload {
 public:
  virtual ~Workload() = default;
  /// The model with its configuration, where it has several: "resnet18", "bert-tiny".
  virtual std::string title() const = 0;
  virtual const datasets::Dataset& train_data() const = 0;
  /// Null where the data set has none.
  virtual const datasets::Dataset* validation_data() const = 0;
  /// What there is to train with: "2048 samples, 10 classes".
  virtual std::string extent() const;
  /// A model for these data, without memory.
  virtual std::unique_ptr<nn::Module> model(const ModelChanges& changes = {}) const = 0;
  /// What the module is trained and judged by, which outlives the task.
  virtual std::unique_ptr<train::Task> task(nn::Module& module) const = 0;
  /// Of the task's inputs, in a batch of so many samples at its largest.
  virtual Specs batch(std::int64_t samples) const = 0;
  /// Tokens of a sample at most; 0: it has none.
  virtual std::int64_t tokens() const { return 0; }
  /// Which of the model's parameters share their hyperparameters.
  virtual std::vector<optim::Group> groups(const ParameterSet& parameters) const { return optim::all_in_one(parameters); }
  /// What tells it apart from others: parts that begin a run's identity.
  virtual train::RunIdentity identity() const = 0;
};

struct WorkloadOptions {
  std::string model;
  datasets::DatasetOptions pictures{};  // of models that take pictures
  struct Text {
    std::string dataset = "synthetic", folder, vocabulary, config = "base";  // synthetic texts need neither folder nor vocabulary
    bool cased = false, buckets = false;
    std::int64_t max_length = 128, limit = 0, classes = 0;
    const char* length_option = "--max-length";  // that max_length is given by
    std::int64_t samples = 2048;                 // of synthetic texts to train with
    std::uint64_t seed = 1;                      // that they are made by
  };
  std::optional<Text> text{};  // of models that take texts
  struct Ratings {
    std::string dataset = "synthetic", folder, config = "base";  // synthetic ratings need no folder
    std::int64_t limit = 0;
    std::int64_t users = 512, items = 256, samples = 0;  // of synthetic ratings; samples to train with at least
    std::uint64_t seed = 1;                              // that they are made by, and items that were not met are drawn by
  };
  std::optional<Ratings> ratings{};  // of models that take ratings
  struct Speech {
    std::string dataset = "synthetic", folder, config = "base";  // synthetic speech needs no folder
    bool buckets = false;
    std::int64_t limit = 0;
    std::int64_t frames = 400, samples = 2048;  // of synthetic speech: frames of the longest, samples to train with
    std::uint64_t seed = 1;                     // that it is made by
  };
  std::optional<Speech> speech{};  // of models that take speech
  double label_smoothing = 0;      // of the loss, where it is a cross-entropy; 0..1
};

/// Opens the data. @throws what they throw
std::unique_ptr<Workload> make_workload(const WorkloadOptions& options);

/// The data set that is made up, which models of every kind have.
inline constexpr std::string_view kSynthetic = "synthetic";

/// Whether a model takes texts.
bool takes_texts(std::string_view model);
/// Whether it takes texts to tell the tokens that follow.
bool is_language_model(std::string_view model);
/// Whether it takes texts to translate them.
bool is_translator(std::string_view model);
/// The data set of pairs of texts, for models that translate.
inline constexpr std::string_view kTranslation = "translation";
/// The data set of running text, for language models.
inline constexpr std::string_view kRunningText = "text";
/// The model that takes users and items.
inline constexpr std::string_view kNcf = "ncf";
/// The model and the data set of speech.
inline constexpr std::string_view kSpeech = "speech";

}  // namespace gemel::cli
