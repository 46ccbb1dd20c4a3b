// Staleness: which worker of a parameter server may read, and whose gradient is applied next, so that no gradient is staler than a bound.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace gemel::parallel {

/// How the gradients of workers become updates.
struct UpdateRule {
  std::optional<std::int64_t> staleness = 4;  // the bound; 0: synchronous; none: there is no bound
  int backup = 0;                             // synchronous: workers whose gradients a step does without
  bool divides_rate = true;                   // asynchronous: a gradient that is n updates stale is applied at 1/(n + 1) of the rate

  bool synchronous() const { return staleness == 0; }
};

/// Two numbers of a gradient when it is applied, each at most the bound.
struct GradientAge {
  std::int64_t updates = 0;       // between the read of the parameters that it was computed from and its own update
  std::int64_t steps_behind = 0;  // at that read: own steps by which the slowest worker was behind this one
};

/// Factor of the rate at which a gradient is applied. The source counts a gradient's own update as one of those that it is stale.
/// Source: W. Zhang et al., Staleness-aware Async-SGD for Distributed Deep Learning, 2016
double rate_factor(const UpdateRule& rule, const GradientAge& age);

/// Asynchronous updates under a bound S. Two rules hold together:
/// - a worker waits before a read while the slowest one is more than S of its own steps behind (Ho et al., stale synchronous parallel);
/// - a gradient waits while its update would make another one, whose parameters were read before, staler than S updates. At most S + 1 gradients can then be
///   under way at once, so that with more workers some wait before a read.
/// The gradient whose parameters were read first never waits, so that no two wait for each other.
/// Source: Q. Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server, 2013
class Staleness {
 public:
  /// @param bound  none: no gradient waits
  explicit Staleness(std::optional<std::int64_t> bound) : bound_(bound) {}

  void add_worker(int worker) { workers_.emplace(worker, Worker{}); }
  /// Its gradient under way, if any, is not applied.
  void remove_worker(int worker) { workers_.erase(worker); }
  /// Counts workers' steps from 0 again. None may have a gradient under way.
  void begin_epoch();

  std::int64_t version() const { return version_; }
  /// Of all workers that `may_read`, the one with the fewest steps should be first.
  bool may_read(int worker) const;
  std::int64_t steps_of(int worker) const { return workers_.at(worker).steps; }
  /// The worker reads the parameters of this version, and computes.
  void read(int worker);
  bool is_under_way(int worker) const { return workers_.at(worker).read.has_value(); }
  bool may_apply(int worker) const;
  /// Its gradient makes an update.
  GradientAge apply(int worker);
  /// One update of several gradients, which were all read at this version.
  GradientAge apply_together(const std::vector<int>& workers);
  /// Its gradient is not applied. The step counts as made.
  void drop(int worker);

 private:
  struct Worker {
    std::int64_t steps = 0;
    std::optional<std::int64_t> read{};  // version that it computes from
    std::int64_t behind = 0;             // at that read
  };
  std::int64_t slowest() const;
  std::int64_t under_way() const;
  GradientAge finish(Worker& worker, std::int64_t version);

  std::optional<std::int64_t> bound_;
  std::map<int, Worker> workers_;
  std::int64_t version_ = 0;
};

}  // namespace gemel::parallel
