// What a server knows of a run without its samples: numbers of batches, and what is not trained.
#pragma once
#include <functional>
#include <vector>

#include "datasets/loading/batch.h"
#include "engine/parameters/parameter_set.h"
#include "frontends/nn/module.h"
#include "frontends/train/tasks/task.h"

namespace gemel::distributed {

/// The batches of an epoch without their tensors.
class OutlinedBatches : public datasets::BatchSource {
 public:
  using Starts = std::function<void(std::int64_t epoch, std::int64_t first)>;
  OutlinedBatches(std::int64_t batches, std::int64_t samples, Starts starts) : batches_(batches), samples_(samples), starts_(std::move(starts)) {}
  std::int64_t batches() const override { return batches_; }
  std::int64_t samples() const override { return samples_; }
  void start(std::int64_t epoch, std::int64_t first_batch = 0) override;
  std::optional<datasets::Batch> next() override;

 private:
  std::int64_t batches_, samples_;
  Starts starts_;
  std::int64_t epoch_ = 0, next_ = 0;
};

/// Parameters that are not trained.
std::vector<NamedValue> untrained(const nn::Module& module);

/// Sums of a message. @throws CommError where they are none
train::Sums checked_sums(std::span<const double> numbers, int from);

}  // namespace gemel::distributed
