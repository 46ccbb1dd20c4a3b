// DataLoader: delivers the batches of a data set, which worker threads make ahead, in an order that depends on its options alone.
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
/// standard: the augmentation that the data set defines.
enum class Augment { none, standard };

struct DataLoaderOptions {
  /// Samples of one batch over all ranks; the last batch of an epoch may be smaller.
  std::int64_t batch_size = 64;
  Shuffle shuffle = Shuffle::on;
  Augment augment = Augment::none;
  /// Puts samples of similar length into one batch: sorts the samples of up to 64 batches of the shuffled order by length, then shuffles the batches.
  bool by_length = false;
  std::uint64_t seed = 1;
  /// The rank that loads here, of the `ranks` that share each batch.
  int rank = 0, ranks = 1;
  /// Micro-batches of each batch; each of them is split over the ranks.
  std::int64_t micro_batches = 1;
  /// Threads that make batches; 0: `next` makes them itself.
  int workers = 1;
  /// Most batches that are made ahead of the one asked for.
  int prefetch = 4;
};

/// Options for evaluation: every sample once, in the data set's order.
inline DataLoaderOptions in_file_order(std::int64_t batch_size) { return {.batch_size = batch_size, .shuffle = Shuffle::off}; }

/// Returns a random permutation of 0..size-1 (Fisher-Yates over Philox).
/// @param size  0..2^32-1
std::vector<std::uint32_t> permutation(std::int64_t size, std::uint64_t seed);

/// Delivers the batches of an epoch in the order of permutation(size, seed + epoch), or in the data set's order without shuffling. Each batch is the shard of
/// one rank (datasets/loading/shard.h), so that all ranks together train what one process would. The shard of a small last batch may be empty.
class DataLoader : public BatchSource {
 public:
  /// @param dataset  must outlive the loader
  /// @throws UsageError for options out of range
  DataLoader(const Dataset& dataset, const DataLoaderOptions& options);
  ~DataLoader() override;
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  const DataLoaderOptions& options() const { return options_; }
  /// Number of samples in an epoch over all ranks.
  std::int64_t samples() const override { return dataset_.size(); }
  /// Number of batches in an epoch.
  std::int64_t batches() const override;

  /// Begins an epoch at one of its batches and drops the batches made so far.
  /// @param first_batch  0..batches()
  /// @throws UsageError if out of range
  void start(std::int64_t epoch, std::int64_t first_batch = 0) override;
  /// Returns the next batch, or nothing at the end of the epoch. Rethrows what a worker threw while it made this batch, which ends the epoch.
  /// @throws UsageError before start
  std::optional<Batch> next() override;

  /// Makes the shard of any rank of any batch, in this thread: for workers that are told what comes next. Not between `start` and the end of an epoch.
  /// @throws UsageError if out of range
  Batch shard(std::int64_t epoch, std::int64_t index, int rank);

  /// Sets the shares of all ranks from the first batch on that is not begun yet, and for later epochs. Every rank must make the same call, so that the shards
  /// cover each batch. The smaller last batch of an epoch is split evenly, so that no shard is empty without need.
  /// @throws UsageError if the shares are not one a rank, or some are negative or all are 0
  void share(Shares shares);

 private:
  struct Slot {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };
  void make_order(std::int64_t epoch);
  void group_by_length();
  Batch make(std::int64_t index, int rank, const Shares& shares) const;
  /// Calls `make` and keeps what it returned or threw.
  Slot filled_slot(std::int64_t index, const Shares& shares) const;
  /// Returns the shares that hold for a batch.
  const Shares& shares_of(std::int64_t index) const;
  /// Waits for the next batch and frees its slot.
  Slot take_slot();
  void work();
  void stop();

  const Dataset& dataset_;
  DataLoaderOptions options_;
  std::int64_t epoch_ = -1;
  bool started_ = false;
  /// [position] sample; empty if samples come in the data set's order.
  std::vector<std::uint32_t> order_;

  std::mutex mutex_;
  std::map<std::int64_t, Shares> shares_{{0, {}}};  // by the first batch of the epoch that they hold for
  std::condition_variable made_, room_;
  std::vector<Slot> slots_;
  /// Next batch to deliver, and next batch that a worker begins.
  std::int64_t next_out_ = 0, next_in_ = 0;
  bool stopping_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace gemel::datasets
