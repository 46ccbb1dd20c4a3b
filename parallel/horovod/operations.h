// NamedCollectives: Horovod's collectives on named tensors, which each rank may request in any order. The communication threads of all ranks meet once a
// cycle: they exchange bits for known requests, negotiate new ones, and carry out together those that all ranks have made.
// Source: A. Sergeev, M. Del Balso, Horovod: fast and easy distributed deep learning in TensorFlow, 2018.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "parallel/collectives/communication_thread.h"
#include "parallel/horovod/autotuner.h"
#include "parallel/horovod/coordinator.h"
#include "parallel/horovod/fusion.h"
#include "parallel/horovod/options.h"
#include "parallel/horovod/request.h"
#include "parallel/horovod/response_cache.h"
#include "parallel/horovod/timeline.h"

namespace gemel::parallel::horovod {

/// The result of a request.
struct Result {
  std::vector<std::vector<std::byte>> received;  // [rank] of all_gather and all_to_all
  int last_joined = -1;                          // of join: the rank that ran out of data last
  int givers = 0;                                // number of ranks that gave data: all but those that had joined
};

/// A pending request.
class Handle {
 public:
  explicit Handle(std::future<Result> result) : result_(std::move(result)) {}
  /// True if it is done, so that `synchronize` does not wait.
  bool poll() const { return result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  /// Waits for the result; may be called once.
  /// @throws CommError if the ranks' requests differ, or communication ended
  Result synchronize() { return result_.get(); }

 private:
  std::future<Result> result_;
};

struct Tensor {
  std::shared_ptr<Buffer> buffer;
  Shape shape;
  DType dtype = DType::float32;
};

struct Reduce {
  Reduction reduction = Reduction::mean;
  double prescale = 1, postscale = 1;  // factors before and after the reduction
  std::optional<DType> wire;           // type in which float32 is communicated: float16 or bfloat16
};

class NamedCollectives : public Turns {
 public:
  using Warn = std::function<void(const std::string& line)>;
  /// Starts the cycles, in which all work of the communication thread runs from now on. The options of rank 0 are used on all ranks. Collective.
  /// @param warn  is told of stalls, on rank 0, in the communication thread
  /// @throws DataError if a file of the options cannot be written
  NamedCollectives(CommunicationThread& communication, Options options, Warn warn = {});
  /// Collective unless an error ends the run: see shutdown.
  ~NamedCollectives() override;

  int rank() const { return communication_.rank(); }
  int size() const { return communication_.size(); }
  int local_rank() const;
  int local_size() const;
  /// Rank and number of ranks among those with this local rank on their machines.
  int cross_rank() const;
  int cross_size() const;

  // Requests may be made from any thread. Tensors are in use until their handles are done. If a rank ends without making a request of the others, their handles
  // fail with a CommError that names it.
  /// @throws UsageError for a name that is empty, "join" or pending on this rank, or after shutdown; ShapeError for an element type that cannot be reduced, or
  ///   a scalar where rows are expected
  Handle all_reduce(const std::string& name, Tensor tensor, const Reduce& how = {});
  /// All-reduce with a callback in place of a handle.
  /// @param done  called in the communication thread with the error or null, and the number of ranks that gave data; must not throw
  /// @param step  of this rank, for error messages; see CommunicationThread::at_step
  using Done = std::function<void(const std::exception_ptr& error, int givers)>;
  void all_reduce(const std::string& name, Tensor tensor, const Reduce& how, Done done, std::int64_t step);
  struct Named {
    std::string name;
    Tensor tensor;
  };
  /// Reduces several tensors together, once all ranks have requested all of them.
  /// @param group  name of the group
  std::vector<Handle> grouped_all_reduce(const std::string& group, std::vector<Named> tensors, const Reduce& how = {});
  /// Concatenates the rows of all ranks, whose numbers may differ.
  Handle all_gather(const std::string& name, Tensor tensor);
  /// @throws UsageError if root is not a rank
  Handle broadcast(const std::string& name, Tensor tensor, int root);
  /// Reduces this rank's piece, the elements from `Collectives::piece_begin(elements, rank, size)` on; the others become undefined.
  Handle reduce_scatter(const std::string& name, Tensor tensor, const Reduce& how = {});
  /// Sends rows to each rank, in the order of ranks.
  /// @param rows  [rank] number of rows for it  @throws ShapeError if they do not add up to the tensor's
  Handle all_to_all(const std::string& name, Tensor tensor, std::vector<std::int64_t> rows);
  /// Call when this rank has run out of data. It takes part in the requests of the others with neutral data until all ranks have joined; a mean is over the
  /// ranks that gave data.
  Handle join();

  /// Ends the cycles, fails pending requests and writes the timeline. Collective, once; requests of other ranks in the meantime fail there.
  /// @throws CommError; DataError on rank 0
  void shutdown();

  struct Statistics {
    std::int64_t cycles = 0, bit_exchanges = 0, negotiations = 0;
    std::int64_t all_reduces = 0, tensors = 0;  // carried out; tensors: of any operation
    std::int64_t stall_warnings = 0;
    Tuned tuned{};  // in use
  };
  Statistics statistics();
  /// True if individual tensors are observed, by a timeline or the autotuner.
  bool is_observed() const { return !options_.timeline.empty() || options_.tunes; }

  Clock::time_point due(const Work& work) override;
  std::size_t turn(Collectives& c, std::size_t startable) override;
  void failed(const std::exception_ptr& why) override;

 private:
  using Words = std::vector<std::uint64_t>;
  using Ready = Coordinator::Ready;
  struct Pending {
    Request request;
    std::shared_ptr<Buffer> buffer;
    std::vector<std::int64_t> rows;  // for all_to_all
    std::promise<Result> done;
    Done then;               // called as well; may be empty
    std::size_t number = 0;  // among this rank's requests
    std::int64_t step = 0;   // of this rank
    Clock::time_point since;
    std::int64_t since_ns = 0, ready_ns = 0;  // for the timeline
    bool told = false, told_overdue = false;  // told: the other ranks know of the request; told_overdue: that it waits for long
  };
  Handle ask(Request request, std::shared_ptr<Buffer> buffer, std::vector<std::int64_t> rows = {});
  std::vector<Handle> ask_all(std::vector<Pending> asked);
  void refuse_all(const std::exception_ptr& why);
  void take_arrived();
  std::set<std::string> groups_to_agree_on() const;
  Words bits_of_mine(std::size_t startable, Message& message);
  std::vector<Ready> common(const Words& words) const;
  void add_never_asked(std::vector<Ready>& ready) const;
  std::exception_ptr failure_of(const Ready& ready) const;
  void negotiate(Collectives& c, const Message& mine);
  void add_decisions(Message& message);
  void carry_out(Collectives& c, const std::vector<Ready>& ready);
  void queued_until_now(const Request& request);
  void reduce_together(Collectives& c, std::span<const Request* const> requests, int givers);
  void carry_out_alone(Collectives& c, const Request& request, int givers);
  void take_part(Collectives& c, const Request& request);
  Result move_data(Collectives& c, Pending& pending, int givers);
  void finish(const Request& request, const std::exception_ptr& error, Result result = {});
  static void tell(Pending& pending, const std::exception_ptr& error, Result result = {});
  std::string waiting_for() const;
  bool leaves() const;
  bool has_joined() const { return coordinator_.joined().contains(rank()); }

  CommunicationThread& communication_;
  Options options_;
  Warn warn_;
  int exceptions_ = std::uncaught_exceptions();  // uncaught exceptions when this was made

  std::mutex mutex_;
  std::vector<Pending> arrived_;  // requests since the last cycle
  std::set<std::string> names_;   // of pending requests
  std::size_t asked_ = 0;         // number of requests so far
  std::exception_ptr failure_;    // what ended communication
  bool over_ = false;
  Statistics statistics_;

  // Used in the communication thread.
  std::map<std::string, Pending> pending_;
  ResponseCache cache_;
  Coordinator coordinator_;
  Timeline timeline_;
  Fusion fusion_;
  std::optional<Autotuner> tuner_;  // on rank 0
  std::optional<Tuned> news_;       // to be sent to all ranks
  std::map<std::string, Clock::time_point> warned_;
  Clock::time_point last_{}, looked_for_stalls_{};
  std::optional<Place> ends_;  // set if this rank makes no more requests
  bool told_end_ = false;
};

}  // namespace gemel::parallel::horovod
