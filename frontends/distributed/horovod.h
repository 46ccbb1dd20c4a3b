// Horovod's calls for loops of one's own in the eager front end: named tensors of all ranks, and an optimizer whose gradients they are.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/distributed/data_parallel.h"
#include "frontends/eager/tensor.h"
#include "frontends/optim/optimizer.h"
#include "parallel/horovod/operations.h"

namespace gemel::distributed {

using parallel::horovod::Reduce;

class Horovod {
 public:
  using Options = parallel::horovod::Options;

  /// Collective. What is submitted to the communication thread runs in cycles until shutdown. Both outlive this.
  /// @param options  rank 0's count; by default what the HOROVOD_ variables of the environment say
  void init(Session& session, parallel::CommunicationThread& communication, const Options& options = parallel::horovod::options_from_environment());
  bool is_initialized() const { return horovod_ && !over_; }
  /// Collective. Fails what is under way. What optimizers still ask for is an error; they end before another init.
  void shutdown();

  // All that follows throws a UsageError before init and after shutdown.
  int rank() const { return in_force("rank").rank(); }
  int size() const { return in_force("size").size(); }
  int local_rank() const { return in_force("local_rank").local_rank(); }
  int local_size() const { return in_force("local_size").local_size(); }
  int cross_rank() const { return in_force("cross_rank").cross_rank(); }
  int cross_size() const { return in_force("cross_size").cross_size(); }

  /// A tensor under way.
  class Handle {
   public:
    bool poll() const { return handle_.poll(); }
    /// Waits. Once. @return the result, a tensor of its own without a history  @throws CommError where ranks ask for different things under one name
    eager::Tensor synchronize() { return result_(handle_.synchronize()); }

   private:
    friend class Horovod;
    using Finish = std::function<eager::Tensor(parallel::horovod::Result)>;
    Handle(parallel::horovod::Handle handle, Finish finish) : handle_(std::move(handle)), result_(std::move(finish)) {}
    parallel::horovod::Handle handle_;
    Finish result_;
  };
  // The tensor may change as soon as the call returns. Names are the same on every rank, and free again when the handle is done.
  Handle all_reduce_async(const eager::Tensor& tensor, const std::string& name, const Reduce& how = {});
  /// All at once, when all ranks have all of them. Names are NAME.0, NAME.1 ...
  std::vector<Handle> grouped_all_reduce_async(const eager::Tensors& tensors, const std::string& name, const Reduce& how = {});
  /// The rows of all ranks behind each other: each may have another number of them.
  Handle all_gather_async(const eager::Tensor& tensor, const std::string& name);
  Handle broadcast_async(const eager::Tensor& tensor, int root, const std::string& name);
  /// This rank's elements of the reduction, in one row: see Collectives::piece_begin.
  Handle reduce_scatter_async(const eager::Tensor& tensor, const std::string& name, const Reduce& how = {});
  /// The rows that each rank sends here, in the order of ranks. @param rows  [rank] how many go there
  Handle all_to_all_async(const eager::Tensor& tensor, std::vector<std::int64_t> rows, const std::string& name);

  eager::Tensor all_reduce(const eager::Tensor& t, const std::string& name, const Reduce& how = {}) { return all_reduce_async(t, name, how).synchronize(); }
  eager::Tensor all_gather(const eager::Tensor& t, const std::string& name) { return all_gather_async(t, name).synchronize(); }
  eager::Tensor broadcast(const eager::Tensor& t, int root, const std::string& name) { return broadcast_async(t, root, name).synchronize(); }
  eager::Tensor reduce_scatter(const eager::Tensor& t, const std::string& name, const Reduce& how = {}) {
    return reduce_scatter_async(t, name, how).synchronize();
  }
  eager::Tensor all_to_all(const eager::Tensor& t, std::vector<std::int64_t> rows, const std::string& name) {
    return all_to_all_async(t, std::move(rows), name).synchronize();
  }

  /// This rank has run out of data: until all have, it takes part in what they ask for with zeros, and means are over the ranks that gave data.
  /// @return the rank that joined last, whose parameters are the ones to go on with: broadcast_parameters(net, join())
  /// @throws CommError where a rank ended without having joined
  int join();

  /// All ranks get the root's parameters and buffers.
  void broadcast_parameters(const nn::Module& module, int root = 0);
  /// All ranks get the root's slots of the optimizer, and its counts of steps.
  void broadcast_optimizer_state(optim::Optimizer& optimizer, int root = 0);
  /// The root's text, of any length.
  std::string broadcast_object(const std::string& object, int root, const std::string& name);

  /// For DistributedOptimizer, and for what else communicates beside.
  parallel::horovod::Horovod& cycles() const { return in_force("cycles"); }
  Session& session() const { return *session_; }
  parallel::CommunicationThread& communication() const { return *communication_; }

 private:
  friend class DistributedOptimizer;
  parallel::horovod::Horovod& in_force(const char* call) const;
  void broadcast_into(const Value& value, int root, const std::string& name);

  Session* session_ = nullptr;
  parallel::CommunicationThread* communication_ = nullptr;
  std::unique_ptr<parallel::horovod::Horovod> horovod_;  // kept after shutdown: gradients may be under way to it
  bool over_ = false;
};

enum class WireFormat { none, fp16 };

struct DistributedOptimizerOptions {
  optim::Settings settings{};  // of the optimizer
  WireFormat compression = WireFormat::none;
  int backward_passes_per_step = 1;                    // whose gradients add up on each rank before they are reduced
  parallel::Reduction op = parallel::Reduction::mean;  // or sum
  double prescale = 1, postscale = 1;                  // factors of gradients before and behind the reduction
};

/// An optimizer whose gradients are those of all ranks: zero_grad, backward as often as backward_passes_per_step says, step.
class DistributedOptimizer {
 public:
  /// Packs the module's parameters, so it comes before anything else that does. Collective: all ranks get rank 0's parameters.
  /// @param name  as optim::make takes it  @throws UsageError for a reduction but mean and sum, or no passes
  DistributedOptimizer(Horovod& horovod, nn::Module& module, std::string_view name, const DistributedOptimizerOptions& options = {});

  void zero_grad() { optimizer_->zero_grad(); }
  /// Gradients are reduced from the last pass of a step on, while it computes. @throws UsageError for a pass too many, or after shutdown
  void backward(const eager::Tensor& loss);
  /// Waits for the gradients, and updates. @throws UsageError where passes are missing
  void step();
  /// The optimizer itself, for its rate and schedulers.
  optim::Optimizer& optimizer() { return *optimizer_; }

 private:
  Horovod& horovod_;
  DistributedOptimizerOptions options_;
  DataParallel ranks_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  int passes_ = 0;  // of the step under way
};

}  // namespace gemel::distributed
