// The state of a model in stages: rank 0 gathers it for files, and distributes what it reads.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/numbers.h"
#include "engine/device/host_contents.h"
#include "engine/files/safetensors.h"
#include "frontends/distributed/data_parallel.h"
#include "frontends/distributed/pipeline/pipeline.h"
#include "frontends/distributed/pipeline/state_message.h"
#include "frontends/train/checkpoint/checkpoint.h"

namespace gemel::distributed {
namespace {

using parallel::Collectives;
using Bytes = std::vector<std::byte>;

void send_all(parallel::Communicator& c, int to, const Bytes& bytes) {
  std::int64_t length = std::ssize(bytes);
  c.send(to, parallel::raw_bytes(length)).wait();
  c.send(to, bytes).wait();
}
Bytes receive_all(parallel::Communicator& c, int from) {
  std::int64_t length = 0;
  c.receive(from, parallel::raw_bytes(length)).wait();
  if (length < 0) throw CommError(fmt::format("pipeline: the state of a stage has {} bytes; accepted: what ranks of one version send", length));
  Bytes out(at(length));
  c.receive(from, out).wait();
  return out;
}

}  // namespace

/// What no stage before this one has.
train::RanksState Pipeline::mine() const {
  train::RanksState out;
  const ParameterSet held = task_.module().materialised();
  for (nn::StateEntry& e : nn::state_dict(task_.module(), nn::Extent::materialised))
    if (!stage_->has_before(*held.find(e.name))) out.model.push_back({e.name, e.spec, std::move(e.bytes)});
  if (!optimizer_) return out;
  const HostContents contents(values_of(optimizer_->state()));
  const std::size_t slots = optimizer_->state().size() / std::max<std::size_t>(1, optimizer_->parameters().size());  // of each parameter
  for (std::size_t i = 0; i < optimizer_->state().size(); ++i) {
    const NamedValue& slot = optimizer_->state()[i];
    if (!stage_->has_before(optimizer_->parameters()[i / slots].value))
      out.slots.push_back({slot.name, slot.value.spec(), Bytes(contents[i].begin(), contents[i].end())});
  }
  const std::vector<std::int64_t> steps = optimizer_->parameter_steps();
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (const NamedValue& p = optimizer_->parameters()[i]; !stage_->has_before(p.value)) out.parameter_steps.emplace(p.name, steps[i]);
  return out;
}

train::RanksState Pipeline::state() {
  train::RanksState out;
  if (place_.copy() != 0) {
    communication_.run([](Collectives&) {});
    return out;
  }
  if (place_.stage() != 0) {
    communication_.run([bytes = packed(mine())](Collectives& c) { send_all(c.communicator(), 0, bytes); });
    return out;
  }
  for (int s = 1; s < place_.stages; ++s) {
    train::RanksState theirs = unpacked_state(communication_.run([s](Collectives& c) { return receive_all(c.communicator(), s); }));
    std::ranges::move(theirs.model, std::back_inserter(out.model));
    std::ranges::move(theirs.slots, std::back_inserter(out.slots));
    out.parameter_steps.merge(theirs.parameter_steps);
  }
  return out;
}

std::vector<nn::StateEntry> Pipeline::whole_state() {
  const train::RanksState others = state();
  std::vector<nn::StateEntry> out;
  if (rank() != 0) return out;
  std::map<std::string, nn::StateEntry> all;
  for (nn::StateEntry& e : nn::state_dict(task_.module(), nn::Extent::materialised)) all.emplace(e.name, std::move(e));
  for (const auto& t : others.model) all.emplace(t.name, nn::StateEntry{t.name, t.spec, t.bytes});
  for (const NamedSpec& s : nn::state_specs(task_.module())) out.push_back(std::move(all.at(s.name)));
  return out;
}

void Pipeline::join_model() {
  if (!alike_) return;
  take_from_first_copy(task_.module().materialised().buffers());
}

void Pipeline::check_same() {
  if (!alike_) return;
  require_same_contents(communication_, all_of(task_.module().materialised()), place_.alike(), alike_->collectives.get());
}

void Pipeline::join_state(nn::Module& module, optim::Optimizer& optimizer, train::RunState& state) {
  std::vector<double> numbers{static_cast<double>(state.step), static_cast<double>(state.epoch), static_cast<double>(state.batch),
                              static_cast<double>(optimizer.hyperparameters()->steps)};
  put(numbers, state.sums);
  const auto all = communication_.run([&](Collectives& c) { return c.all_gather(std::as_bytes(std::span(numbers))); });
  const auto first = numbers_in(all[0]);
  state.step = static_cast<std::int64_t>(first[0]);
  state.epoch = static_cast<std::int64_t>(first[1]);
  state.batch = static_cast<std::int64_t>(first[2]);
  state.sums = sums_in(first.subspan(4));
  // Where rank 0 holds the whole model, what it read lies in it already.
  if (rank() == 0 && state.ranks.model.empty() && state.step > 0) state.ranks = mine();
  Bytes bytes = rank() == 0 ? packed(state.ranks) : Bytes();
  communication_.run([&](Collectives& c) {
    std::int64_t length = std::ssize(bytes);
    c.broadcast(parallel::raw_bytes(length));
    bytes.resize(at(length));
    c.broadcast(bytes);
  });
  const train::RanksState read = unpacked_state(bytes);
  if (rank() == 0 || read.model.empty()) return;  // it has loaded its own, or there was nothing to load
  std::vector<NamedTensor> tensors;
  for (const auto& t : read.model) tensors.push_back({t.name, t.spec, t.bytes});
  nn::load_state_dict(module, session_, tensors, nn::Mismatch::refuse, nn::Extent::materialised);
  std::vector<NamedValue> slots;
  std::vector<std::int64_t> steps;
  for (const NamedValue& p : optimizer.parameters()) {
    for (const auto& t : read.slots)
      if (optim::parameter_of_slot(t.name) == p.name) slots.push_back({t.name, session_.tensor(t.spec, std::span<const std::byte>(t.bytes))});
    if (const auto it = read.parameter_steps.find(p.name); it != read.parameter_steps.end()) steps.push_back(it->second);
  }
  optimizer.load_state(slots, static_cast<std::int64_t>(first[3]), steps);
}

}  // namespace gemel::distributed
