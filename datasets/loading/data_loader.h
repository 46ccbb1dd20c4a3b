// Loader: batches of a data set, made ahead by worker threads, in an order that depends on nothing but its options.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "datasets/loading/batch.h"
#include "datasets/loading/dataset.h"
#include "datasets/loading/shard.h"

namespace gemel::datasets {

enum class Shuffle { off, on };
/// standard: as the data set augments its samples.
enum class Augment { none, standard };

struct LoaderOptions {
  /// Samples of one batch, of all ranks together; an epoch's last batch may be smaller.
  std::int64_t batch_size = 64;
  Shuffle shuffle = Shuffle::on;
  Augment augment = Augment::none;
  /// Batches are of samples of like length: those of some batches of the shuffled order are sorted by length, and the batches shuffled again.
  bool by_length = false;
  std::uint64_t seed = 1;
  /// Of `ranks` that share each batch, the one that loads here.
  int rank = 0, ranks = 1;
  /// Parts that each batch runs in, one after the other; each is shared by the ranks.
  std::int64_t micro_batches = 1;
  /// Threads that make batches; 0: `next` makes them itself.
  int workers = 1;
  /// Batches made at most ahead of the one asked for.
  int prefetch = 4;
};

/// Every sample once, in the data set's order: for evaluation.
inline LoaderOptions in_file_order(std::int64_t batch_size) { return {.batch_size = batch_size, .shuffle = Shuffle::off}; }

/// The samples 0..size-1 in the order of that seed (Fisher-Yates over Philox).
/// @param size  0..2^32-1
std::vector<std::uint32_t> permutation(std::int64_t size, std::uint64_t seed);

/// Delivers an epoch's batches in the order of permutation(seed + epoch), of each the shard of one rank (datasets/loading/shard.h): the ranks
/// together train what one process does. A shard of a small last batch may be empty.
class Loader : public BatchSource {
 public:
  /// @param dataset  must outlive the loader
  /// @throws UsageError for options out of range
  Loader(const Dataset& dataset, const LoaderOptions& options);
  ~Loader() override;
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const LoaderOptions& options() const { return options_; }
  /// Samples of an epoch, of all ranks together.
  std::int64_t samples() const override { return dataset_.size(); }
  /// Batches of an epoch.
  std::int64_t batches() const override;

  /// Begins an epoch at any of its batches; what was being made before is dropped.
  /// @param first_batch  0..batches()
  /// @throws UsageError if out of range
  void start(std::int64_t epoch, std::int64_t first_batch = 0) override;
  /// The next batch, or nothing at the end of the epoch. What a worker threw while making this batch is thrown here,
  /// and ends the epoch.
  /// @throws UsageError before start
  std::optional<Batch> next() override;

  /// From the first batch on that is not begun, and in later epochs: the shares of all ranks. Called alike on every rank their shards stay whole.
  /// An epoch's smaller last batch is shared evenly, so that no shard is empty that need not be.
  /// @throws UsageError where they are not one a rank, negative or all 0
  void share(Shares shares);

 private:
  struct Slot {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };
  void group_by_length();
  Batch make(std::int64_t index, const Shares& shares) const;
  /// What `make` returned or threw.
  Slot filled_slot(std::int64_t index, const Shares& shares) const;
  /// Those of a batch.
  const Shares& shares_of(std::int64_t index) const;
  /// Waits for the next batch and frees its slot.
  Slot take_slot();
  void work();
  void stop();

  const Dataset& dataset_;
  LoaderOptions options_;
  std::int64_t epoch_ = 0;
  bool started_ = false;
  /// Empty where samples come in the data set's order.
  std::vector<std::uint32_t> order_;

  std::mutex mutex_;
  std::map<std::int64_t, Shares> shares_{{0, {}}};  // from that batch of the epoch on
  std::condition_variable made_, room_;
  std::vector<Slot> slots_;
  /// The next batch to hand out, and the next that a worker begins.
  std::int64_t next_out_ = 0, next_in_ = 0;
  bool stopping_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace gemel::datasets
