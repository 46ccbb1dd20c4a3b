#include "frontends/distributed/horovod.h"

#include <fmt/format.h>

#include <cstring>
#include <numeric>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/device/device_access.h"
#include "frontends/eager/grad.h"
#include "frontends/nn/module.h"

namespace gemel::distributed {
namespace {

using Bytes = std::vector<std::byte>;

/// A copy of a tensor's contents on the host, for as long as its request or its handle lives.
struct Copy {
  Spec spec;
  std::shared_ptr<Bytes> bytes;

  explicit Copy(const Value& value) : spec(value.spec()), bytes(std::make_shared<Bytes>(read_bytes(value))) {}
  parallel::horovod::Tensor tensor() const { return {parallel::horovod::host_buffer(bytes), spec.shape, spec.dtype}; }
};

Value joined_rows(Session& session, Spec spec, const std::vector<Bytes>& received) {
  Bytes all;
  for (const Bytes& part : received) all.insert(all.end(), part.begin(), part.end());
  std::int64_t row = static_cast<std::int64_t>(size_of(spec.dtype));
  for (int axis = 1; axis < spec.shape.rank(); ++axis) row *= spec.shape[axis];
  spec.shape[0] = row ? std::ssize(all) / row : 0;
  return session.tensor(spec, all);
}

}  // namespace

void Horovod::init(Session& session, parallel::CommunicationThread& communication, const Options& options) {
  if (is_initialized()) throw UsageError("horovod: init is called twice; accepted: once before shutdown");
  session_ = &session;
  communication_ = &communication;
  horovod_ = std::make_unique<parallel::horovod::NamedCollectives>(communication, options, [](const std::string& line) { fmt::print(stderr, "{}\n", line); });
  over_ = false;
}

/// Behind this rank's own requests, as join.
void Horovod::shutdown() {
  parallel::horovod::NamedCollectives& horovod = in_force("shutdown");
  mark(*session_).wait();
  horovod.shutdown();
  over_ = true;
}

parallel::horovod::NamedCollectives& Horovod::in_force(const char* call) const {
  if (!is_initialized())
    throw UsageError(fmt::format("horovod: {} is called {}; accepted: between init and shutdown", call, over_ ? "after shutdown" : "before init"));
  return *horovod_;
}

Horovod::Handle Horovod::all_reduce_async(const eager::Tensor& tensor, const std::string& name, const Reduce& how) {
  parallel::horovod::NamedCollectives& horovod = in_force("all_reduce");
  const Copy copy{Value(tensor)};
  return {horovod.all_reduce(name, copy.tensor(), how),
          [copy, this](const parallel::horovod::Result&) { return eager::Tensor(session_->tensor(copy.spec, *copy.bytes)); }};
}

std::vector<Horovod::Handle> Horovod::grouped_all_reduce_async(const eager::Tensors& tensors, const std::string& name, const Reduce& how) {
  parallel::horovod::NamedCollectives& horovod = in_force("grouped_all_reduce");
  std::vector<Copy> copies;
  std::vector<parallel::horovod::NamedCollectives::Named> named;
  for (const eager::Tensor& t : tensors) {
    copies.emplace_back(Value(t));
    named.push_back({fmt::format("{}.{}", name, named.size()), copies.back().tensor()});
  }
  std::vector<Handle> out;
  std::vector<parallel::horovod::Handle> handles = horovod.grouped_all_reduce(name, std::move(named), how);
  for (std::size_t i = 0; i < handles.size(); ++i)
    out.push_back({std::move(handles[i]),
                   [copy = copies[i], this](const parallel::horovod::Result&) { return eager::Tensor(session_->tensor(copy.spec, *copy.bytes)); }});
  return out;
}

Horovod::Handle Horovod::all_gather_async(const eager::Tensor& tensor, const std::string& name) {
  parallel::horovod::NamedCollectives& horovod = in_force("all_gather");
  const Copy copy{Value(tensor)};
  return {horovod.all_gather(name, copy.tensor()),
          [copy, this](const parallel::horovod::Result& r) { return eager::Tensor(joined_rows(*session_, copy.spec, r.received)); }};
}

Horovod::Handle Horovod::broadcast_async(const eager::Tensor& tensor, int root, const std::string& name) {
  parallel::horovod::NamedCollectives& horovod = in_force("broadcast");
  const Copy copy{Value(tensor)};
  return {horovod.broadcast(name, copy.tensor(), root),
          [copy, this](const parallel::horovod::Result&) { return eager::Tensor(session_->tensor(copy.spec, *copy.bytes)); }};
}

Horovod::Handle Horovod::reduce_scatter_async(const eager::Tensor& tensor, const std::string& name, const Reduce& how) {
  parallel::horovod::NamedCollectives& horovod = in_force("reduce_scatter");
  const Copy copy{Value(tensor)};
  return {horovod.reduce_scatter(name, copy.tensor(), how), [copy, this, rank = rank(), size = size()](const parallel::horovod::Result&) {
            using parallel::Collectives;
            const std::int64_t all = copy.spec.shape.elements(), begin = Collectives::piece_begin(all, rank, size),
                               end = Collectives::piece_begin(all, rank + 1, size);
            const auto element = static_cast<std::int64_t>(size_of(copy.spec.dtype));
            return eager::Tensor(session_->tensor({Shape{end - begin}, copy.spec.dtype},
                                                  std::span<const std::byte>(*copy.bytes).subspan(at(begin * element), at((end - begin) * element))));
          }};
}

Horovod::Handle Horovod::all_to_all_async(const eager::Tensor& tensor, std::vector<std::int64_t> rows, const std::string& name) {
  parallel::horovod::NamedCollectives& horovod = in_force("all_to_all");
  const Copy copy{Value(tensor)};
  return {horovod.all_to_all(name, copy.tensor(), std::move(rows)),
          [copy, this](const parallel::horovod::Result& r) { return eager::Tensor(joined_rows(*session_, copy.spec, r.received)); }};
}

/// Behind this rank's own requests: its gradients are asked for when they are computed.
int Horovod::join() {
  parallel::horovod::NamedCollectives& horovod = in_force("join");
  mark(*session_).wait();
  return horovod.join().synchronize().last_joined;
}

void Horovod::broadcast_into(const Value& value, int root, const std::string& name) {
  const Copy copy(value);
  in_force("broadcast").broadcast(name, copy.tensor(), root).synchronize();
  if (rank() != root) write(value, *copy.bytes);
}

void Horovod::broadcast_parameters(const nn::Module& module, int root) {
  const ParameterSet set = module.parameters();
  for (const NamedValue& p : set.parameters()) broadcast_into(p.value, root, "broadcast." + p.name);
  for (const NamedValue& b : set.buffers()) broadcast_into(b.value, root, "broadcast." + b.name);
}

void Horovod::broadcast_optimizer_state(optim::Optimizer& optimizer, int root) {
  for (const NamedValue& s : optimizer.state()) broadcast_into(s.value, root, "broadcast." + s.name);
  optim::Hyperparameters& hyper = *optimizer.hyperparameters();
  std::vector<std::int64_t> counts{hyper.steps};
  for (const std::int64_t steps : hyper.parameter_steps()) counts.push_back(steps);
  const auto bytes = std::as_writable_bytes(std::span(counts));
  in_force("broadcast").broadcast("broadcast.steps", {parallel::horovod::host_buffer(bytes), Shape{std::ssize(counts)}, DType::int64}, root).synchronize();
  hyper.steps = counts[0];
  for (std::size_t i = 0; i < hyper.rows.size(); ++i) hyper.rows[i].steps = counts[1 + i];
}

std::string Horovod::broadcast_object(const std::string& object, int root, const std::string& name) {
  std::int64_t length = std::ssize(object);
  const auto give = [&](const std::string& what, std::span<std::byte> bytes) {
    in_force("broadcast").broadcast(what, {parallel::horovod::host_buffer(bytes), Shape{std::ssize(bytes)}, DType::boolean}, root).synchronize();
  };
  give(name + ".length", parallel::raw_bytes(length));
  std::string out = rank() == root ? object : std::string(at(length), '\0');
  give(name, std::as_writable_bytes(std::span(out)));
  return out;
}

namespace {

DataParallelOptions in_cycles(Horovod& horovod, const DistributedOptimizerOptions& options) {
  if (options.op != parallel::Reduction::mean && options.op != parallel::Reduction::sum)
    throw UsageError(fmt::format("horovod: gradients become their {}; accepted: mean, sum", parallel::to_string(options.op)));
  if (options.backward_passes_per_step < 1)
    throw UsageError(fmt::format("horovod: {} backward passes a step; accepted: one or more", options.backward_passes_per_step));
  DataParallelOptions out{
      .horovod = &horovod.cycles(), .prescale = options.prescale, .postscale = options.postscale, .rows_travel = false};  // a rank may join()
  if (options.compression == WireFormat::fp16) out.reducer.compression.kind = parallel::CompressionOptions::Kind::float16;
  return out;
}

}  // namespace

DistributedOptimizer::DistributedOptimizer(Horovod& horovod, nn::Module& module, std::string_view name, const DistributedOptimizerOptions& options)
    : horovod_(horovod), options_(options), ranks_(horovod.session(), horovod.communication(), in_cycles(horovod, options)) {
  ranks_.pack(module);
  optimizer_ = optim::make(name, optim::all_in_one(module.parameters()), options.settings);
  ranks_.attach(module, *optimizer_);
}

void DistributedOptimizer::backward(const eager::Tensor& loss) {
  (void)horovod_.in_force("backward");
  if (passes_ == options_.backward_passes_per_step)
    throw UsageError(fmt::format("horovod: a backward pass comes behind the {} of a step; accepted: step() first, or more backward_passes_per_step", passes_));
  ++passes_;
  const bool averages = options_.op == parallel::Reduction::mean;
  if (passes_ == options_.backward_passes_per_step) return averages ? ranks_.backward(loss) : ranks_.backward_sum(loss);
  const DataParallel::NoSync alone(ranks_);
  ranks_.backward_sum(loss);
}

void DistributedOptimizer::step() {
  if (passes_ != options_.backward_passes_per_step)
    throw UsageError(fmt::format("horovod: step() comes behind {} of {} backward passes; accepted: all of them", passes_, options_.backward_passes_per_step));
  passes_ = 0;
  optimizer_->step();
}

}  // namespace gemel::distributed
