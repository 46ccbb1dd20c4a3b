#include "parallel/horovod/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/numbers.h"
#include "parallel/transport/clock_offset.h"

namespace gemel::parallel::horovod {
namespace {

constexpr const char* kJoin = "join";  // the name under which ranks agree on it

/// What all ranks must do alike.
struct Alike {
  std::int64_t fusion_bytes, cache_capacity;
  double cycle_ms, stall_warning_s, stall_shutdown_s;
  bool keeps_timeline, marks_cycles;
};

Options rank_0s(Options mine, CommunicationThread& communication) {
  Alike alike{
      mine.fusion_bytes, static_cast<std::int64_t>(mine.cache_capacity), mine.cycle_ms, mine.stall_warning_s, mine.stall_shutdown_s, !mine.timeline.empty(),
      mine.marks_cycles};
  communication.run([&](Collectives& c) { c.broadcast(raw_bytes(alike)); });
  mine.fusion_bytes = alike.fusion_bytes;
  mine.cache_capacity = static_cast<std::size_t>(alike.cache_capacity);
  mine.cycle_ms = alike.cycle_ms;
  mine.stall_warning_s = alike.stall_warning_s;
  mine.stall_shutdown_s = alike.stall_shutdown_s;
  mine.marks_cycles = alike.marks_cycles;
  if (communication.rank() != 0) mine.timeline = alike.keeps_timeline ? "rank 0's" : "";
  return mine;
}

void check_timeline(const std::string& file) try {
  if (!file.empty()) check_can_write(file);
} catch (const DataError& e) {
  throw DataError(std::string("HOROVOD_TIMELINE: ") + e.what());
}

Options checked(Options options, CommunicationThread& communication) {
  if (communication.rank() == 0) check_timeline(options.timeline);
  return rank_0s(std::move(options), communication);
}

}  // namespace

NamedCollectives::NamedCollectives(CommunicationThread& communication, Options options, Warn warn)
    : communication_(communication),
      options_(checked(std::move(options), communication)),
      warn_(std::move(warn)),
      cache_(options_.cache_capacity),
      coordinator_(communication.size()),
      timeline_(options_.timeline, options_.marks_cycles),
      fusion_(timeline_) {
  statistics_.tuned = {options_.fusion_bytes, options_.cycle_ms};
  if (options_.tunes && rank() == 0) news_ = tuner_.emplace(options_, warn_).current();
  communication_.run([this](Collectives&) { communication_.take_turns(this); });
}

NamedCollectives::~NamedCollectives() {
  try {
    if (std::uncaught_exceptions() > exceptions_) communication_.abort(fmt::format("rank {} failed", rank()));
    shutdown();
  } catch (const DataError& e) {
    if (warn_) warn_(e.what());
  } catch (...) {
    // What failed is told by whoever waited for it.
  }
}

void NamedCollectives::shutdown() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(over_, true)) return;
  }
  communication_.run([this](Collectives& c) {
    communication_.take_turns(nullptr);
    refuse_all(std::make_exception_ptr(CommError("horovod: shutdown came before all ranks had asked for it")));
    if (!timeline_.keeps()) return;
    if (coordinator_.all_ended())
      timeline_.write(c, clock_lead_ns(c.communicator()));
    else if (rank() == 0)
      timeline_.write_alone();  // others are at other work
  });
}

int NamedCollectives::local_rank() const { return communication_.placement().local_rank[at(rank())]; }
int NamedCollectives::local_size() const { return static_cast<int>(communication_.placement().beside(rank()).size()); }

int NamedCollectives::cross_rank() const {
  const std::vector<int>& local = communication_.placement().local_rank;
  return static_cast<int>(std::count(local.begin(), local.begin() + rank(), local_rank()));
}
int NamedCollectives::cross_size() const { return static_cast<int>(std::ranges::count(communication_.placement().local_rank, local_rank())); }

std::vector<Handle> NamedCollectives::ask_all(std::vector<Pending> asked) {
  std::vector<Handle> out;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    std::set<std::string> names;  // under way once all are accepted: a group that is refused takes none
    for (const Pending& p : asked) {
      const std::string& name = p.request.name;
      if (over_) throw UsageError(fmt::format("horovod: {}: it is asked for after shutdown; accepted: before it", name));
      if (name.empty()) throw UsageError("horovod: a tensor has no name; accepted: a name that is the same on every rank");
      if (name == kJoin && p.request.operation != Operation::join) throw UsageError("horovod: a tensor is called 'join', as join() is; accepted: another name");
      if (names_.contains(name) || !names.insert(name).second)
        throw UsageError(fmt::format("horovod: {}: it is under way already; accepted: one request of a name at a time", name));
    }
    names_.merge(names);
    for (Pending& p : asked) {
      p.since = Clock::now();
      p.since_ns = steady_ns();
      p.number = ++asked_;
      if (p.step == 0) p.step = communication_.step();
      out.emplace_back(p.done.get_future());
      arrived_.push_back(std::move(p));
    }
  }
  communication_.wake();
  return out;
}

Handle NamedCollectives::ask(Request request, std::shared_ptr<Buffer> buffer, std::vector<std::int64_t> rows) {
  std::vector<Pending> one(1);
  one[0].request = std::move(request);
  one[0].buffer = std::move(buffer);
  one[0].rows = std::move(rows);
  return std::move(ask_all(std::move(one))[0]);
}

namespace {

Request reduction_of(Operation operation, const std::string& name, const Tensor& tensor, const Reduce& how) {
  const DType wire = how.wire.value_or(tensor.dtype);
  if (tensor.dtype == DType::boolean)
    throw ShapeError(fmt::format("horovod: {}: booleans are not reduced; accepted: float32, float16, bfloat16, int32, int64", name));
  const bool narrows = tensor.dtype == DType::float32 && is_two_bytes(wire) && operation == Operation::all_reduce;
  if (wire != tensor.dtype && !narrows)
    throw UsageError(fmt::format("horovod: {}: {} of {} travels as {}; accepted: all_reduce of float32 as float16 or bfloat16", name, to_string(operation),
                                 to_string(tensor.dtype), to_string(wire)));
  if (!is_floating(tensor.dtype) && (how.prescale != 1 || how.postscale != 1))
    throw UsageError(fmt::format("horovod: {}: {} is scaled; accepted: floating types", name, to_string(tensor.dtype)));
  return {.operation = operation,
          .name = name,
          .dtype = tensor.dtype,
          .shape = tensor.shape,
          .wire = wire,
          .reduction = how.reduction,
          .prescale = how.prescale,
          .postscale = how.postscale};
}

Request movement_of(Operation operation, const std::string& name, const Tensor& tensor) {
  if (operation != Operation::broadcast && tensor.shape.empty())
    throw ShapeError(fmt::format("horovod: {}: a scalar has no rows; accepted: one axis or more", name));
  return {.operation = operation, .name = name, .dtype = tensor.dtype, .shape = tensor.shape, .wire = tensor.dtype};
}

}  // namespace

Handle NamedCollectives::all_reduce(const std::string& name, Tensor tensor, const Reduce& how) {
  return ask(reduction_of(Operation::all_reduce, name, tensor, how), std::move(tensor.buffer));
}

void NamedCollectives::all_reduce(const std::string& name, Tensor tensor, const Reduce& how, Done done, std::int64_t step) {
  std::vector<Pending> one(1);
  one[0].request = reduction_of(Operation::all_reduce, name, tensor, how);
  one[0].buffer = std::move(tensor.buffer);
  one[0].then = std::move(done);
  one[0].step = step;
  ask_all(std::move(one));
}

std::vector<Handle> NamedCollectives::grouped_all_reduce(const std::string& group, std::vector<Named> tensors, const Reduce& how) {
  std::vector<Pending> all(tensors.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].request = reduction_of(Operation::all_reduce, tensors[i].name, tensors[i].tensor, how);
    all[i].request.group = group;
    all[i].request.members = static_cast<int>(tensors.size());
    all[i].buffer = std::move(tensors[i].tensor.buffer);
  }
  return ask_all(std::move(all));
}

Handle NamedCollectives::all_gather(const std::string& name, Tensor tensor) {
  return ask(movement_of(Operation::all_gather, name, tensor), std::move(tensor.buffer));
}

Handle NamedCollectives::broadcast(const std::string& name, Tensor tensor, int root) {
  if (root < 0 || root >= size()) throw UsageError(fmt::format("horovod: {}: the root is {}; accepted: 0..{}", name, root, size() - 1));
  Request request = movement_of(Operation::broadcast, name, tensor);
  request.root = root;
  return ask(std::move(request), std::move(tensor.buffer));
}

Handle NamedCollectives::reduce_scatter(const std::string& name, Tensor tensor, const Reduce& how) {
  return ask(reduction_of(Operation::reduce_scatter, name, tensor, how), std::move(tensor.buffer));
}

Handle NamedCollectives::all_to_all(const std::string& name, Tensor tensor, std::vector<std::int64_t> rows) {
  Request request = movement_of(Operation::all_to_all, name, tensor);
  const std::int64_t all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), held = tensor.shape[0];
  if (std::ssize(rows) != size() || all != held || std::ranges::any_of(rows, [](std::int64_t n) { return n < 0; }))
    throw ShapeError(fmt::format("horovod: {}: {} rows go to {} ranks, of {} rows; accepted: for each of {} ranks 0 or more, all of them together", name, all,
                                 rows.size(), held, size()));
  return ask(std::move(request), std::move(tensor.buffer), std::move(rows));
}

Handle NamedCollectives::join() { return ask({.operation = Operation::join, .name = kJoin}, nullptr); }

NamedCollectives::Statistics NamedCollectives::statistics() {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void NamedCollectives::failed(const std::exception_ptr& why) {
  refuse_all(why);
  if (rank() != 0 || !timeline_.keeps()) return;
  try {
    timeline_.write_alone();
  } catch (const std::exception& e) {
    if (warn_) warn_(worded(e));
  }
}

void NamedCollectives::refuse_all(const std::exception_ptr& why) {
  auto pending = std::exchange(pending_, {});
  std::vector<Pending> arrived;
  {
    const std::lock_guard lock(mutex_);  // what is asked for behind this is refused, what was before is among these
    if (!over_) failure_ = why;
    arrived = std::exchange(arrived_, {});
    names_.clear();
  }
  for (Pending& p : arrived) tell(p, why);
  for (auto& [name, p] : pending) tell(p, why);
}

}  // namespace gemel::parallel::horovod
