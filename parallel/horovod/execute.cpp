// Carries out the requests that all ranks have made, in the same order on every rank.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "parallel/collectives/host_reduce.h"
#include "parallel/horovod/operations.h"

namespace gemel::parallel::horovod {
namespace {

/// "ALLREDUCE", as Horovod's timeline names it.
std::string phase_name(Operation operation) {
  std::string out;
  for (const char* c = to_string(operation); *c; ++c)
    if (*c != '_') out += static_cast<char>(std::toupper(*c));
  return out;
}

/// A mean is divided behind it, by the ranks that gave data.
Reduction summed(Reduction reduction) { return reduction == Reduction::mean ? Reduction::sum : reduction; }

}  // namespace

void NamedCollectives::carry_out(Collectives& c, const std::vector<Ready>& ready) {
  const std::int64_t now = steady_ns();
  std::map<int, std::vector<Request>> agreed;  // by how many ranks give data
  for (const Ready& r : ready) {
    if (const auto it = pending_.find(r.request.name); it != pending_.end() && timeline_.keeps()) {
      it->second.ready_ns = now;
      timeline_.add(r.request.name, "NEGOTIATE_" + phase_name(r.request.operation), it->second.since_ns, now);
    }
    if (r.ended >= 0 && ends_) continue;  // the end of this one's own cycles refuses it
    if (const std::exception_ptr failure = failure_of(r))
      finish(r.request, failure);
    else if (r.request.operation != Operation::join)
      agreed[r.givers].push_back(r.request);
  }
  for (const auto& [givers, alike] : agreed)
    for (const std::vector<std::size_t>& together : fused(alike, options_.fusion_bytes)) {
      std::vector<const Request*> requests;
      for (const std::size_t i : together) requests.push_back(&alike[i]);
      if (requests[0]->operation == Operation::all_reduce)
        reduce_together(c, requests, givers);
      else
        carry_out_alone(c, *requests[0], givers);
    }
  for (const Ready& r : ready)
    if (r.request.operation == Operation::join && r.ended < 0) finish(r.request, nullptr, {.last_joined = r.request.root});
}

/// Null where it is carried out. Requests of a rank that asked for none of it have no place.
std::exception_ptr NamedCollectives::failure_of(const Ready& r) const {
  if (!r.error.empty()) return std::make_exception_ptr(CommError(r.error));
  const auto mine = pending_.find(r.request.name);
  if (r.ended < 0) return nullptr;
  std::string what = to_string(r.request.operation);
  std::ranges::replace(what, '_', '-');
  if (r.request.operation != Operation::join) what += " " + r.request.name;
  const Place here = mine == pending_.end() ? Place{} : Place{mine->second.step, static_cast<std::int64_t>(mine->second.number)};
  return std::make_exception_ptr(
      CommError(what + ": " + has_ended(r.ended, communication_.placement().hosts, coordinator_.ended().at(r.ended), here, "request") + kAcceptedOfUneven));
}

void NamedCollectives::queued_until_now(const Request& request) {
  const auto it = pending_.find(request.name);
  if (it != pending_.end()) timeline_.add(request.name, "QUEUE", it->second.ready_ns, steady_ns());
}

void NamedCollectives::reduce_together(Collectives& c, std::span<const Request* const> requests, int givers) {
  const CommunicationThread::Doing doing(communication_,
                                         requests.size() == 1 ? requests[0]->name : fmt::format("{} ... {}", requests[0]->name, requests.back()->name));
  std::vector<Fusion::Part> parts;
  for (const Request* r : requests) {
    const auto it = pending_.find(r->name);
    parts.push_back({*r, it == pending_.end() ? nullptr : it->second.buffer.get()});
    queued_until_now(*r);
  }
  fusion_.all_reduce(c, parts, givers);
  {
    const std::lock_guard lock(mutex_);
    ++statistics_.all_reduces;
  }
  if (tuner_)
    if (const auto tuned = tuner_->reduced(requests, Clock::now())) news_ = tuned;
  for (const Request* r : requests) finish(*r, nullptr, {.givers = givers});
}

void NamedCollectives::carry_out_alone(Collectives& c, const Request& request, int givers) {
  const CommunicationThread::Doing doing(communication_, request.name);
  queued_until_now(request);
  const std::int64_t begin = steady_ns();
  const auto it = pending_.find(request.name);
  Result result;
  if (it == pending_.end())
    take_part(c, request);
  else
    result = move_data(c, it->second, givers);
  result.givers = givers;
  timeline_.add(request.name, phase_name(request.operation), begin, steady_ns());
  finish(request, nullptr, std::move(result));
}

/// This rank has joined: the others' operation needs it all the same.
void NamedCollectives::take_part(Collectives& c, const Request& request) {
  std::vector<std::byte> zeros;
  switch (request.operation) {
    case Operation::all_gather:
      c.all_gather({});
      return;
    case Operation::broadcast:
      zeros.resize(at(request.bytes()));
      return c.broadcast(zeros, request.root);
    case Operation::reduce_scatter:
      zeros.resize(at(request.bytes()));
      fill_neutral({zeros.data(), request.shape.elements(), request.dtype}, request.reduction);
      return c.reduce_scatter({zeros.data(), request.shape.elements(), request.dtype}, summed(request.reduction));
    case Operation::all_reduce:
    case Operation::all_to_all:
    case Operation::join:
      break;
  }
  throw InternalError(fmt::format("horovod: {}: {} is carried out on a rank that has joined", request.name, to_string(request.operation)));
}

Result NamedCollectives::move_data(Collectives& c, Pending& pending, int givers) {
  const Request& r = pending.request;
  const std::span<std::byte> bytes = pending.buffer->open();
  Result result;
  switch (r.operation) {
    case Operation::all_gather:
      result.received = c.all_gather(bytes);
      break;
    case Operation::broadcast:
      c.broadcast(bytes, r.root);
      break;
    case Operation::reduce_scatter: {
      const Elements all{bytes.data(), r.shape.elements(), r.dtype};
      const std::int64_t begin = Collectives::piece_begin(all.count, rank(), size()), end = Collectives::piece_begin(all.count, rank() + 1, size());
      scale(all, r.prescale);
      c.reduce_scatter(all, summed(r.reduction));
      if (r.reduction == Reduction::mean) divide(all.part(begin, end - begin), givers);
      scale(all.part(begin, end - begin), r.postscale);
      break;
    }
    case Operation::all_to_all: {
      std::vector<std::vector<std::byte>> given;
      const std::size_t row = r.shape[0] ? bytes.size() / at(r.shape[0]) : 0;
      std::size_t begin = 0;
      for (const std::int64_t rows : pending.rows) {
        const auto part = bytes.subspan(begin, at(rows) * row);
        given.emplace_back(part.begin(), part.end());
        begin += part.size();
      }
      result.received = c.all_to_all(given);
      break;
    }
    case Operation::all_reduce:
    case Operation::join:
      throw InternalError(fmt::format("horovod: {} is carried out alone", to_string(r.operation)));
  }
  pending.buffer->close();
  return result;
}

/// On every rank in the same order, so that their caches stay alike. The name is free before its handle is done.
void NamedCollectives::finish(const Request& request, const std::exception_ptr& error, Result result) {
  const auto node = pending_.extract(request.name);
  warned_.erase(request.name);
  if (!error && request.operation != Operation::join) cache_.used(node ? node.mapped().request : request);
  {
    const std::lock_guard lock(mutex_);
    names_.erase(request.name);
    statistics_.tensors += !error;
  }
  if (node) tell(node.mapped(), error, std::move(result));
}

void NamedCollectives::tell(Pending& pending, const std::exception_ptr& error, Result result) {
  const int givers = result.givers;
  if (error)
    pending.done.set_exception(error);
  else
    pending.done.set_value(std::move(result));
  if (pending.then) pending.then(error, givers);
}

}  // namespace gemel::parallel::horovod
