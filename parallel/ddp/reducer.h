// Reducer: sums gradients over ranks in buckets while the backward pass goes on. It works alike in both front ends: the engine tells it when a gradient is
// complete, and it adds an operator after which the sums are available.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/attributes.h"
#include "engine/gradients/autograd.h"
#include "engine/parameters/parameter_set.h"
#include "parallel/collectives/communication_thread.h"
#include "parallel/communication_span.h"
#include "parallel/ddp/buckets.h"
#include "parallel/ddp/compression.h"
#include "parallel/ddp/gradient_memory.h"
#include "parallel/ddp/sparse_all_reduce.h"

namespace gemel::parallel {

struct ReducerOptions {
  BucketOptions buckets{};
  CompressionOptions compression{};
  SumsOn sums = SumsOn::every_rank;
  bool overlaps = true;       // reduce during the backward pass; false if that pass itself communicates in an order of its own
  bool keeps_spans = false;   // record spans of the communication, for a Chrome trace
  bool check_finite = false;  // check each gradient before it is summed, and name the parameter and the rank (slow)
  /// [parameter] true: the gradient of this table is communicated as a row gradient, in float32 whatever the compression; the same on every rank; empty: none
  std::vector<bool> by_rows = {};
  Collectives* among = nullptr;  // group of ranks to reduce over, made in the communication thread; null: all ranks
};

/// The row gradient of a table in a step, after its backward pass.
struct RowsInStep {
  std::size_t parameter;
  Value indices, values, table, met;  // met: int64 [rows], output: the row's number if some rank has it, else -1; may be empty
  bool all;                           // true: the table holds this rank's full gradient, and the rows are ignored
};

class Reducer : public State, public std::enable_shared_from_this<Reducer> {
 public:
  /// @param parameters  in slabs, with the names and numbers that the optimizer uses  @param memory  where their gradients are
  Reducer(Session& session, CommunicationThread& communication, std::vector<NamedValue> parameters, const GradientMemory& memory,
          const ReducerOptions& options = {});

  /// Returns the callback for GradientOptions::ready of the backward pass whose gradients are reduced.
  GradientReady gradient_ready();
  /// Returns the tables for GradientOptions::rows of that pass.
  const std::vector<bool>& by_rows() const { return options_.by_rows; }
  /// Ends a step after the backward pass, in operators: the gradients, which are in their places, become sums over all ranks, or are undefined on ranks that
  /// get no sums. A parameter that a rank did not use counts as zeros; if no rank used it, its gradient is empty. The gradient of a table that is communicated
  /// by rows is the full table, or rows if its leaf asks for them.
  /// @throws UsageError in a captured step in which another rank used a parameter that this one did not; CommError that ended the communication of an earlier
  ///   step, or with check_finite an Error that names rank and parameter
  /// @param divided_by  the number of ranks if gradients are of a loss already divided by it: the mean then excludes ranks that have joined; 0: sums
  void join(Values& gradients, int divided_by = 0);
  /// @throws what ended the communication of an earlier step
  void throw_failure();

  /// Times of a joined step.
  struct StepTimes {
    std::chrono::steady_clock::time_point enqueued, last_gradient, summed;
    double waited_within_seconds, waited_behind_seconds;  // waits for communication before and after the last gradient
  };
  /// Returns the times of each step once its sums are available, in order.
  std::optional<StepTimes> next_step();
  /// Returns the spans recorded since the last call. From any thread.
  std::vector<Span> take_spans();
  /// Adds time of further communication in the current step that did not overlap with computation. From any thread.
  void add_exposed(double seconds);
  const std::vector<Bucket>& buckets();
  /// Returns what this rank has not sent yet of a parameter's gradient, if the compression keeps something back. In the communication thread.
  std::span<float> residual(std::size_t parameter);

 protected:
  using Clock = std::chrono::steady_clock;
  /// Called when a bucket is complete, or has no gradients of this rank in this step, which are then zeros.
  /// @param computed  when the gradients are computed
  virtual void submit(std::size_t bucket, const Event& computed);
  /// Times of the end of a step's backward pass: when the last gradient was enqueued, and computed.
  struct Ended {
    Clock::time_point enqueued;
    std::shared_future<Clock::time_point> computed;
    int divided_by;  // see `join`
    std::shared_ptr<const std::vector<SlabRange>> gradients;
  };
  /// Called when all buckets of the step were submitted. What the session computes from now on runs after their sums.
  /// @param used  [parameter] 1 if this rank used it  @return [parameter] 1 if some rank used it
  virtual std::future<std::vector<std::int32_t>> end_step(std::vector<std::int32_t> used, const Ended& ended);
  /// True: buckets are submitted as soon as they are complete. False: in order. Overridden where ranks agree on an order by themselves.
  virtual bool in_any_order() const { return false; }

  /// Host view of a range of gradients.
  struct View {
    HostView view;  // empty if the gradients are in host memory
    std::span<float> gradients;
  };
  View open(const SlabRange& range, const Event& computed, Access access = Access::read_write);
  /// @throws Error naming this rank and the parameter, if a gradient is not finite
  void check_finite(const Bucket& bucket, const Event& computed) const;
  void check_finite(std::size_t parameter, std::span<const float> gradient) const;
  /// Records a step whose sums are available.
  /// @param givers  number of ranks that gave data  @param computed  when the inputs of the sums were computed
  void add_step(const Ended& ended, int givers, const Event& computed);
  void add_span(std::string what, std::int64_t begin_ns, std::int64_t bytes);
  void add_span(std::size_t bucket, std::int64_t begin_ns, std::int64_t bytes) { add_span("bucket " + std::to_string(bucket), begin_ns, bytes); }
  const std::string& name_of(std::size_t parameter) const { return parameters_[parameter].name; }
  Collectives& group(Collectives& all) const { return options_.among ? *options_.among : all; }

  Session& session_;
  CommunicationThread& communication_;
  const ReducerOptions options_;
  std::shared_ptr<const std::vector<Bucket>> buckets_;
  std::shared_ptr<const std::vector<SlabRange>> gradients_;  // of all trained parameters

 private:
  friend void execute_join(Reducer& reducer, const std::vector<std::int64_t>& unused);
  friend void execute_join_rows(Reducer& reducer, RowsInStep rows);
  bool travels_as_rows(std::size_t i) const { return !options_.by_rows.empty() && options_.by_rows[i]; }
  Value join_rows(std::size_t parameter, Value gradient, Values& given);
  void sum_rows(RowsInStep rows);
  void begin_step();
  void arrived(std::size_t parameter);
  void submit_complete();
  void finish(const std::vector<std::int64_t>& unused);
  void reduce(Collectives& collectives, std::size_t which, const Bucket& bucket, const Event& computed);
  std::string names_in(const Bucket& bucket) const;

  std::vector<NamedValue> parameters_;
  Values values_;
  std::vector<std::shared_ptr<ParameterSlab>> slabs_;
  std::vector<std::byte*> in_place_;  // [slab] host address; null: reached through a view of device memory

  // State of the current step, used in the session's thread.
  bool under_way_ = false;
  std::vector<bool> frozen_;                                   // [parameter] as of when the buckets were made
  std::vector<std::size_t> bucket_of_;                         // [parameter]
  std::vector<bool> has_arrived_;                              // [parameter]
  std::vector<std::size_t> missing_;                           // [bucket] number of parameters
  std::vector<bool> submitted_;                                // [bucket]
  std::vector<RowsInStep> rows_;                               // reduced after the buckets, as a rank's rows may be complete only at the end
  bool joining_ = false;                                       // true while `join` runs its operator at once
  int divided_by_ = 0;                                         // of the step that is being joined
  std::vector<std::int32_t> used_;                             // [parameter] by some rank, in the last step in which this rank did not use all
  std::deque<std::future<std::vector<std::int32_t>>> joined_;  // steps that may still be communicating

  std::unique_ptr<Compression> compression_;  // used in the communication thread
  std::mutex mutex_;
  std::deque<StepTimes> steps_;
  std::vector<Span> spans_;
  double more_exposed_ = 0;  // seconds, of the current step
};

}  // namespace gemel::parallel
