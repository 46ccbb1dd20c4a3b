// The options of `gemel train`.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "datasets/loading/data_loader.h"
#include "frontends/cli/options/common_options.h"
#include "frontends/cli/options/optimizer_options.h"
#include "frontends/cli/options/parallel_options.h"
#include "frontends/cli/options/run_spec.h"
#include "frontends/domains/domain.h"
#include "frontends/models/pictures/picture_models.h"
#include "frontends/optim/learning_rate_schedule.h"

namespace gemel::cli {

struct TrainOptions {
  Json spec;  // of all of them, with what their defaults become of this model and optimizer
  CommonOptions common;
  ParallelOptions parallel;
  Frontend frontend = Frontend::eager;
  domains::OpenWorkload open;  // opens the data
  std::string model, weights, save, checkpoint_dir, resume;
  std::int64_t epochs = 1, steps = 0;  // steps 0: measured in epochs
  std::int64_t batch_size = 64, accumulate = 1, workers = 1, checkpoint_every = 0, eval_every = 1;
  double clip_norm = 0;
  OptimizerOptions optimizer;
  optim::Schedule schedule = optim::Schedule::constant;
  optim::Warmup warmup;
  std::optional<double> dropout;
  models::RecomputedParts recompute = models::RecomputedParts::none;
  datasets::Shuffle shuffle = datasets::Shuffle::on;
  datasets::Augment augment = datasets::Augment::none;
  bool by_length = false;  // batches of texts of like length
  bool freeze_backbone = false, freeze_norm = false, detect_anomaly = false, sparse_embeddings = false;
};

/// What `gemel train` takes.
po::options_description train_options();
/// @throws UsageError  @throws HelpWanted also after --print-spec
TrainOptions parse_train_options(const std::vector<std::string>& arguments);

}  // namespace gemel::cli
