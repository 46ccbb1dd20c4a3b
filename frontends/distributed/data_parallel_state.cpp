// What DataParallel keeps in a checkpoint: the message sizes at which all-reduce algorithms change, which are measured anew for another layout of ranks, and
// gradients not sent yet.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "engine/base/numbers.h"
#include "frontends/distributed/data_parallel.h"

namespace gemel::distributed {
namespace {

constexpr const char *kLimits = "collective_limits", *kLayout = "layout", *kResidual = "residual.";

/// "mpi, machines of 2 2 ranks"
std::string layout_of(const parallel::Communicator& c) {
  std::vector<int> sizes;
  std::map<std::string, std::size_t> machine;
  for (int r = 0; r < c.size(); ++r) {
    const auto [it, is_new] = machine.try_emplace(c.host(r), sizes.size());
    if (is_new) sizes.push_back(0);
    ++sizes[it->second];
  }
  return fmt::format("{}, machines of {} ranks", c.carrier(), fmt::join(sizes, " "));
}

/// Of as many bytes on every rank, one behind the other; empty on all but rank 0. Collective.
std::vector<std::byte> rows_of_ranks(parallel::Communicator& c, std::span<const std::byte> mine) {
  std::vector<std::byte> all;
  if (c.rank() != 0) {
    c.send(0, mine).wait();
    return all;
  }
  all.resize(at(c.size()) * mine.size());
  std::ranges::copy(mine, all.begin());
  for (int r = 1; r < c.size(); ++r) c.receive(r, std::span(all).subspan(at(r) * mine.size(), mine.size())).wait();
  return all;
}

}  // namespace

train::RanksState DataParallel::state() {
  train::RanksState out;
  communication_.run([&](parallel::Collectives& c) {
    if (!c.chooses_by_size()) return;
    out.texts = {{kLimits, to_string(c.limits())}, {kLayout, layout_of(c.communicator())}};
  });
  if (!keeps_residuals()) return out;
  for (std::size_t i = 0; i < optimizer_->parameters().size(); ++i) {
    const NamedValue& p = optimizer_->parameters()[i];
    train::RanksState::Tensor all{kResidual + p.name, f32({size(), p.value.elements()}), {}};
    communication_.run([&](parallel::Collectives& c) { all.bytes = rows_of_ranks(c.communicator(), std::as_bytes(reducer_->residual(i))); });
    if (rank() == 0) out.tensors.push_back(std::move(all));
  }
  return out;
}

/// Residuals of ranks that there are no more go to those that there are, each to one.
void DataParallel::join_ranks_state(const train::RanksState& of_rank_0) {
  communication_.run([&](parallel::Collectives& c) {
    std::string limits;
    if (rank() == 0 && c.chooses_by_size() && of_rank_0.texts.contains(kLimits) && of_rank_0.texts.contains(kLayout) &&
        of_rank_0.texts.at(kLayout) == layout_of(c.communicator()))
      limits = of_rank_0.texts.at(kLimits);
    const auto said = c.all_gather(std::as_bytes(std::span(limits)))[0];
    limits.assign(reinterpret_cast<const char*>(said.data()), said.size());
    if (!limits.empty()) c.set_limits(parallel::parse_limits(limits));
  });
  if (!keeps_residuals()) return;
  for (std::size_t i = 0; i < optimizer_->parameters().size(); ++i) {
    const auto saved = std::ranges::find(of_rank_0.tensors, kResidual + optimizer_->parameters()[i].name, &train::RanksState::Tensor::name);
    communication_.run([&](parallel::Collectives& c) {
      const std::span<float> mine = reducer_->residual(i);
      std::int64_t ranks =
          rank() == 0 && saved != of_rank_0.tensors.end() ? std::ssize(saved->bytes) / std::max<std::int64_t>(1, std::ssize(std::as_bytes(mine))) : 0;
      c.broadcast(parallel::raw_bytes(ranks));
      std::vector<float> row(mine.size());
      std::ranges::fill(mine, 0.0f);
      for (std::int64_t r = 0; r < ranks; ++r) {
        if (rank() == 0) std::memcpy(row.data(), saved->bytes.data() + at(r) * row.size() * sizeof(float), row.size() * sizeof(float));
        c.broadcast(std::as_writable_bytes(std::span(row)));
        for (std::size_t k = 0; r % size() == rank() && k < row.size(); ++k) mine[k] += row[k];
      }
    });
  }
}

}  // namespace gemel::distributed
