// FreeBatches: the parts of an epoch's batches that workers take one after the other, in the one order of samples.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace gemel::parallel {

/// Part `part` of the batch `batch`, as datasets/loading/shard.h divides it.
struct BatchPart {
  std::int64_t batch = 0, part = 0;
  friend bool operator==(const BatchPart&, const BatchPart&) = default;
};

/// Parts are numbered from 0 in the order of samples, without those that have no samples.
class FreeBatches {
 public:
  /// @param parts  of each batch; at most as many as a batch has samples
  FreeBatches(std::int64_t samples, std::int64_t batch_size, std::int64_t parts);

  /// Number of parts in an epoch.
  std::int64_t size() const { return size_; }
  BatchPart part(std::int64_t number) const { return {number / parts_, number % parts_}; }

  /// Begins an epoch of which `done` parts are trained: the first ones but for `missing`, which others of later numbers were done before.
  /// @throws UsageError if there are no such parts
  void start(std::int64_t done = 0, const std::vector<std::int64_t>& missing = {});
  /// Takes the first free part, if any.
  std::optional<std::int64_t> take();
  /// A part that was taken is free again: its worker is lost, or its gradient is not used.
  void give_back(std::int64_t number);
  void done(std::int64_t number);
  bool any_free() const { return !returned_.empty() || next_ < size_; }
  /// Parts before the first one that nobody has taken yet, which are not done: for a checkpoint.
  std::vector<std::int64_t> missing() const;

 private:
  std::int64_t parts_, size_;
  std::int64_t next_ = 0;  // the first that nobody has taken yet
  std::set<std::int64_t> returned_, taken_;
};

}  // namespace gemel::parallel
