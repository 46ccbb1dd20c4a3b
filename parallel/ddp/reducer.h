// Reducer: sums gradients over ranks, bucket by bucket, while the backward pass that makes them goes on. The same in both front ends: it
// is told of complete gradients by the engine and adds one operator, behind which the sums are there.
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
  bool overlaps = true;       // sums while the backward pass goes on; not where that communicates by itself, in its own order
  bool keeps_spans = false;   // of what is communicated, for a trace
  bool check_finite = false;  // of each gradient before it is summed: names the parameter and the rank (slow)
  std::vector<bool> by_rows =
      {};                        // [parameter] tables whose gradients travel as rows, as float32 whatever the compression; the same on every rank; empty: none
  Collectives* among = nullptr;  // of a group of the ranks, made in the communication thread, whose gradients these are; null: of all
};

/// A table in a step, behind its backward pass.
struct RowsInStep {
  std::size_t parameter;
  Value indices, values, table, met;  // met: int64 [rows], becomes each that some rank gives, else -1; empty where nobody asks
  bool all;                           // the table holds this rank's gradient, whatever the rows
};

class Reducer : public State, public std::enable_shared_from_this<Reducer> {
 public:
  /// @param parameters  in slabs, named and numbered as the optimizer has them  @param memory  where their gradients lie
  Reducer(Session& session, CommunicationThread& communication, std::vector<NamedValue> parameters, const GradientMemory& memory,
          const ReducerOptions& options = {});

  /// For GradientOptions::ready of the backward pass whose gradients are reduced.
  GradientReady gradient_ready();
  /// For GradientOptions::rows of that pass.
  const std::vector<bool>& by_rows() const { return options_.by_rows; }
  /// In operators, behind that pass: gradients are in their places, and sums over all ranks (or undefined, where others get them). What a rank did not use
  /// counts as zeros; it is an empty value where no rank used it. Of a table that travels as rows it is the whole table, of rows where its leaf asks for them.
  /// @throws UsageError in a captured step where only another rank used a parameter; what ended the communication of an earlier step: a
  /// CommError, or with check_finite an Error that names rank and parameter
  /// @param divided_by  the number of ranks, where what each gives is a share of a mean: of ranks that have joined the mean is without. 0: sums
  void join(Values& gradients, int divided_by = 0);
  /// @throws what ended the communication of an earlier step
  void throw_failure();

  /// Of a step that was joined.
  struct StepTimes {
    std::chrono::steady_clock::time_point enqueued, last_gradient, summed;
    double waited_within_seconds, waited_behind_seconds;  // for communication, before its last gradient and behind it
  };
  /// Of each step whose sums are there, once, in their order.
  std::optional<StepTimes> next_step();
  /// Buckets on their way since the last call. From any thread.
  std::vector<Span> take_spans();
  /// Further communication of the step under way that nothing hid. From any thread.
  void add_exposed(double seconds);
  const std::vector<Bucket>& buckets();
  /// What this rank has not sent yet of a parameter's gradient, where the compression leaves something behind. In the communication thread.
  std::span<float> residual(std::size_t parameter);

 protected:
  using Clock = std::chrono::steady_clock;
  /// A bucket is complete, or this rank has none of its gradients in this step: those are zeros. @param computed  when they are there
  virtual void submit(std::size_t bucket, const Event& computed);
  /// When a step's last gradient was enqueued, and computed.
  struct Ended {
    Clock::time_point enqueued;
    std::shared_future<Clock::time_point> computed;
    int divided_by;  // see `join`
    std::shared_ptr<const std::vector<SlabRange>> gradients;
  };
  /// All buckets of the step were submitted. What the session computes from now on begins behind their sums.
  /// @param used  [parameter] by this rank  @return [parameter] by some rank
  virtual std::future<std::vector<std::int32_t>> end_step(std::vector<std::int32_t> used, const Ended& ended);
  /// Whether each goes as soon as it is complete, not behind those before it: where the ranks agree on an order meanwhile.
  virtual bool in_any_order() const { return false; }

  /// Elements of a slab as the host sees them.
  struct View {
    HostView view;  // empty where they lie in place
    std::span<float> gradients;
  };
  View open(const SlabRange& range, const Event& computed, Access access = Access::read_write);
  /// @throws Error that names this rank and the parameter
  void check_finite(const Bucket& bucket, const Event& computed) const;
  void check_finite(std::size_t parameter, std::span<const float> gradient) const;
  /// Its sums are there. @param givers  ranks that gave data  @param computed  when what the sums were made of was
  void add_step(const Ended& ended, int givers, const Event& computed);
  void add_span(std::string what, std::int64_t begin_ns, std::int64_t bytes);
  void add_span(std::size_t bucket, std::int64_t begin_ns, std::int64_t bytes) { add_span("bucket " + std::to_string(bucket), begin_ns, bytes); }
  const std::string& name_of(std::size_t parameter) const { return parameters_[parameter].name; }
  Collectives& group(Collectives& all) const { return options_.among ? *options_.among : all; }

  Session& session_;
  CommunicationThread& communication_;
  const ReducerOptions options_;
  std::shared_ptr<const std::vector<Bucket>> buckets_;
  std::shared_ptr<const std::vector<SlabRange>> gradients_;  // of all that are trained

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
  std::vector<std::byte*> in_place_;  // [slab] where the host finds it; null: in a view of the device's memory

  // Of the step that is under way, in the session's thread.
  bool under_way_ = false;
  std::vector<bool> frozen_;                                   // for which the buckets are
  std::vector<std::size_t> bucket_of_;                         // [parameter]
  std::vector<bool> has_arrived_;                              // [parameter]
  std::vector<std::size_t> missing_;                           // [bucket] parameters
  std::vector<bool> submitted_;                                // [bucket]
  std::vector<RowsInStep> rows_;                               // that go behind the buckets, as those of a rank may be complete at the end only
  bool joining_ = false;                                       // `join` computes at once
  int divided_by_ = 0;                                         // of the step that is joined
  std::vector<std::int32_t> used_;                             // [parameter] by some rank, of the last step in which this one did not use them all
  std::deque<std::future<std::vector<std::int32_t>>> joined_;  // of steps whose communication may still be under way

  std::unique_ptr<Compression> compression_;  // of the communication thread
  std::mutex mutex_;
  std::deque<StepTimes> steps_;
  std::vector<Span> spans_;
  double more_exposed_ = 0;  // of the step under way
};

}  // namespace gemel::parallel
