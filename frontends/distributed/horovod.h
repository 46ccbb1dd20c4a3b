// Horovod's interface for a user's own loop in the eager front end: collectives on named tensors, and an optimizer that reduces gradients by them.
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

  /// Starts Horovod: work of the communication thread runs in cycles until shutdown. Session and thread must outlive this object. Collective.
  /// @param options  those of rank 0 are used; by default from the HOROVOD_ variables of the environment
  void init(Session& session, parallel::CommunicationThread& communication, const Options& options = parallel::horovod::options_from_environment());
  bool is_initialized() const { return horovod_ && !over_; }
  /// Ends Horovod and fails pending requests. Later requests of optimizers are an error; optimizers must be destroyed before another init. Collective.
  void shutdown();

  // All functions below throw UsageError before init and after shutdown.
  int rank() const { return in_force("rank").rank(); }
  int size() const { return in_force("size").size(); }
  int local_rank() const { return in_force("local_rank").local_rank(); }
  int local_size() const { return in_force("local_size").local_size(); }
  int cross_rank() const { return in_force("cross_rank").cross_rank(); }
  int cross_size() const { return in_force("cross_size").cross_size(); }

  /// A pending request.
  class Handle {
   public:
    bool poll() const { return handle_.poll(); }
    /// Waits for the result; may be called once.
    /// @return a new tensor without history  @throws CommError if ranks' requests of one name differ
    eager::Tensor synchronize() { return result_(handle_.synchronize()); }

   private:
    friend class Horovod;
    using Finish = std::function<eager::Tensor(parallel::horovod::Result)>;
    Handle(parallel::horovod::Handle handle, Finish finish) : handle_(std::move(handle)), result_(std::move(finish)) {}
    parallel::horovod::Handle handle_;
    Finish result_;
  };
  // The tensor may change once the call has returned. Names are the same on every rank, and may be used again when the handle is done.
  Handle all_reduce_async(const eager::Tensor& tensor, const std::string& name, const Reduce& how = {});
  /// Reduces several tensors together, once all ranks have requested all of them. Their names are NAME.0, NAME.1, ...
  std::vector<Handle> grouped_all_reduce_async(const eager::Tensors& tensors, const std::string& name, const Reduce& how = {});
  /// Concatenates the rows of all ranks, whose numbers may differ.
  Handle all_gather_async(const eager::Tensor& tensor, const std::string& name);
  Handle broadcast_async(const eager::Tensor& tensor, int root, const std::string& name);
  /// Returns this rank's piece of the reduction as a vector: see Collectives::piece_begin.
  Handle reduce_scatter_async(const eager::Tensor& tensor, const std::string& name, const Reduce& how = {});
  /// Exchanges rows; returns those that each rank sent here, in the order of ranks.
  /// @param rows  [rank] number of rows to send
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

  /// Call when this rank has run out of data. It takes part in the requests of the others with neutral data until all ranks have joined; means are over the
  /// ranks that gave data.
  /// @return the rank that joined last, whose parameters should be used further: broadcast_parameters(net, join())
  /// @throws CommError if a rank ended without having joined
  int join();

  /// Copies the root's parameters and buffers to all ranks.
  void broadcast_parameters(const nn::Module& module, int root = 0);
  /// Copies the root's optimizer slots and step counts to all ranks.
  void broadcast_optimizer_state(optim::Optimizer& optimizer, int root = 0);
  /// Returns the root's text, of any length.
  std::string broadcast_object(const std::string& object, int root, const std::string& name);

  /// Internals for DistributedOptimizer and other communication.
  parallel::horovod::NamedCollectives& cycles() const { return in_force("cycles"); }
  Session& session() const { return *session_; }
  parallel::CommunicationThread& communication() const { return *communication_; }

 private:
  friend class DistributedOptimizer;
  parallel::horovod::NamedCollectives& in_force(const char* call) const;
  void broadcast_into(const Value& value, int root, const std::string& name);

  Session* session_ = nullptr;
  parallel::CommunicationThread* communication_ = nullptr;
  std::unique_ptr<parallel::horovod::NamedCollectives> horovod_;  // kept after shutdown, as gradients may be pending
  bool over_ = false;
};

enum class WireFormat { none, fp16 };

struct DistributedOptimizerOptions {
  optim::Settings settings{};  // of the optimizer
  WireFormat compression = WireFormat::none;
  int backward_passes_per_step = 1;                    // number of passes whose gradients each rank accumulates before they are reduced
  parallel::Reduction op = parallel::Reduction::mean;  // mean or sum
  double prescale = 1, postscale = 1;                  // factors of gradients before and after the reduction
};

/// An optimizer that reduces gradients over all ranks. Usage: zero_grad, backward backward_passes_per_step times, step.
class DistributedOptimizer {
 public:
  /// Packs the module's parameters, so that nothing else may have packed them before. All ranks get rank 0's parameters. Collective.
  /// @param name  as for optim::make  @throws UsageError for a reduction other than mean and sum, or no passes
  DistributedOptimizer(Horovod& horovod, nn::Module& module, std::string_view name, const DistributedOptimizerOptions& options = {});

  void zero_grad() { optimizer_->zero_grad(); }
  /// Adds gradients. Those of a step's last pass are reduced while it computes.
  /// @throws UsageError for too many passes, or after shutdown
  void backward(const eager::Tensor& loss);
  /// Waits for the gradients and updates the parameters.
  /// @throws UsageError if passes are missing
  void step();
  /// The optimizer, for its rate and schedulers.
  optim::Optimizer& optimizer() { return *optimizer_; }

 private:
  Horovod& horovod_;
  DistributedOptimizerOptions options_;
  DataParallel ranks_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  int passes_ = 0;  // of the current step
};

}  // namespace gemel::distributed
