// Horovod: named tensors that the ranks reduce, gather, broadcast and exchange as soon as all of them have asked, in any order. The ranks' communication
// threads meet once a cycle: they say by bits which of the requests that they know they have, negotiate the others, and carry out together what all have.
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

/// What comes of a request.
struct Result {
  std::vector<std::vector<std::byte>> received;  // [rank] of all_gather and all_to_all
  int last_joined = -1;                          // of join: the rank that ran out of data last
  int givers = 0;                                // ranks that gave data: all, but for those that had joined
};

/// A request under way.
class Handle {
 public:
  explicit Handle(std::future<Result> result) : result_(std::move(result)) {}
  /// Whether it is done, so that `synchronize` does not wait.
  bool poll() const { return result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  /// Waits. Once. @throws CommError where the ranks' requests differ, or communication ended
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
  double prescale = 1, postscale = 1;  // factors before and behind it
  std::optional<DType> wire;           // float32 travels as float16 or bfloat16
};

class Horovod : public Turns {
 public:
  using Warn = std::function<void(const std::string& line)>;
  /// Collective. Rank 0's options are everybody's. From here on all that the communication thread is given runs in cycles.
  /// @param warn  is told of stalls, on rank 0, in the communication thread  @throws DataError where a file of the options cannot be written
  Horovod(CommunicationThread& communication, Options options, Warn warn = {});
  /// Collective, where no error ends the run: see shutdown.
  ~Horovod() override;

  int rank() const { return communication_.rank(); }
  int size() const { return communication_.size(); }
  int local_rank() const;
  int local_size() const;
  /// Among the ranks that have this one's local rank on their machines.
  int cross_rank() const;
  int cross_size() const;

  // Requests, from any thread. Tensors are in use until their handles are done.
  // Where a rank has ended that has not asked for it, a handle fails with a CommError that names it.
  /// @throws UsageError for a name that is under way on this rank, an empty one, "join", or after shutdown; ShapeError for a type that is not
  ///         reduced, or a scalar whose rows are asked for
  Handle all_reduce(const std::string& name, Tensor tensor, const Reduce& how = {});
  /// The same. @param done  is told, in the communication thread, with what failed or null, and of how many ranks gave data. It throws nothing
  /// @param step  of this rank, for errors; see CommunicationThread::at_step
  using Done = std::function<void(const std::exception_ptr& error, int givers)>;
  void all_reduce(const std::string& name, Tensor tensor, const Reduce& how, Done done, std::int64_t step);
  struct Named {
    std::string name;
    Tensor tensor;
  };
  /// All of them at once, when all ranks have all of them. @param group  names them together
  std::vector<Handle> grouped_all_reduce(const std::string& group, std::vector<Named> tensors, const Reduce& how = {});
  /// Rows of all ranks: each may have another number of them.
  Handle all_gather(const std::string& name, Tensor tensor);
  /// @throws UsageError for a root that is no rank
  Handle broadcast(const std::string& name, Tensor tensor, int root);
  /// Elements from `Collectives::piece_begin(elements, rank, size)` on become this rank's piece of the reduction, the others are undefined.
  Handle reduce_scatter(const std::string& name, Tensor tensor, const Reduce& how = {});
  /// Rows to each rank, in the order of ranks. @param rows  [rank] how many go there  @throws ShapeError where they are not all of the tensor's
  Handle all_to_all(const std::string& name, Tensor tensor, std::vector<std::int64_t> rows);
  /// This rank has run out of data: until all ranks have, it takes part in theirs with zeros, or what else changes nothing, and a mean is over the ranks that
  /// gave data.
  Handle join();

  /// Ends the cycles, fails what is under way, and writes the timeline. Collective, once: what other ranks still ask for meanwhile fails there.
  /// @throws CommError; DataError on rank 0
  void shutdown();

  struct Statistics {
    std::int64_t cycles = 0, bit_exchanges = 0, negotiations = 0;
    std::int64_t all_reduces = 0, tensors = 0;  // carried out: of any operation
    std::int64_t stall_warnings = 0;
    Tuned tuned{};  // in use
  };
  Statistics statistics();
  /// Whether somebody looks at each tensor's way: a timeline, or the autotuner.
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
    std::vector<std::int64_t> rows;  // of all_to_all
    std::promise<Result> done;
    Done then;               // told beside it; may be empty
    std::size_t number = 0;  // of this rank's requests
    std::int64_t step = 0;   // of this rank
    Clock::time_point since;
    std::int64_t since_ns = 0, ready_ns = 0;  // for the timeline
    bool told = false, told_overdue = false;  // to the other ranks, in words
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
  int exceptions_ = std::uncaught_exceptions();  // under way when this was made

  std::mutex mutex_;
  std::vector<Pending> arrived_;  // since the last cycle
  std::set<std::string> names_;   // under way
  std::size_t asked_ = 0;         // requests so far
  std::exception_ptr failure_;    // what ended communication
  bool over_ = false;
  Statistics statistics_;

  // Of the communication thread.
  std::map<std::string, Pending> pending_;
  ResponseCache cache_;
  Coordinator coordinator_;
  Timeline timeline_;
  Fusion fusion_;
  std::optional<Autotuner> tuner_;  // of rank 0
  std::optional<Tuned> news_;       // to be told to all
  std::map<std::string, Clock::time_point> warned_;
  Clock::time_point last_{}, looked_for_stalls_{};
  std::optional<Place> ends_;  // this rank asks for nothing more
  bool told_end_ = false;
};

}  // namespace gemel::parallel::horovod
