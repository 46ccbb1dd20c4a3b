#include "datasets/loading/data_loader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include "datasets/loading/shard.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/base/philox.h"

namespace gemel::datasets {
namespace {

void check(const char* what, std::int64_t given, std::int64_t least, std::int64_t most) {
  if (given < least || given > most) throw UsageError(fmt::format("loader: {} is {}; accepted: {}..{}", what, given, least, most));
}

}  // namespace

std::vector<std::uint32_t> permutation(std::int64_t size, std::uint64_t seed) {
  std::vector<std::uint32_t> order(narrow<std::uint32_t>(size));
  std::iota(order.begin(), order.end(), 0u);
  PhiloxStream stream(seed, stream_hash("shuffle"));
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[stream.below(static_cast<std::uint32_t>(i))]);
  return order;
}

DataLoader::DataLoader(const Dataset& dataset, const DataLoaderOptions& options) : dataset_(dataset), options_(options) {
  check("batch size", options.batch_size, 1, std::int64_t{1} << 31);
  check("number of ranks", options.ranks, 1, 1 << 20);
  check("rank", options.rank, 0, options.ranks - 1);
  check("number of micro-batches", options.micro_batches, 1, std::int64_t{1} << 31);
  check("number of workers", options.workers, 0, 256);
  check("prefetch", options.prefetch, 1, 1 << 16);
  check("number of samples", dataset.size(), 1, (std::int64_t{1} << 32) - 1);
}

DataLoader::~DataLoader() { stop(); }

std::int64_t DataLoader::batches() const { return ceil_div(dataset_.size(), options_.batch_size); }

void DataLoader::start(std::int64_t epoch, std::int64_t first_batch) {
  check("first batch", first_batch, 0, batches());
  stop();
  make_order(epoch);
  next_out_ = next_in_ = first_batch;
  shares_ = {{0, std::move(shares_.rbegin()->second)}};
  slots_ = std::vector<Slot>(at(options_.prefetch));
  stopping_ = false;
  started_ = true;
  for (int i = 0; i < options_.workers; ++i) threads_.emplace_back([this] { work(); });
}

void DataLoader::make_order(std::int64_t epoch) {
  epoch_ = epoch;
  order_.clear();
  if (options_.shuffle == Shuffle::on) order_ = permutation(dataset_.size(), options_.seed + static_cast<std::uint64_t>(epoch));
  if (options_.by_length) group_by_length();
}

Batch DataLoader::shard(std::int64_t epoch, std::int64_t index, int rank) {
  if (started_) throw UsageError("loader: shard was called within an epoch; accepted: before start, or after an error");
  check("batch", index, 0, batches() - 1);
  check("rank", rank, 0, options_.ranks - 1);
  if (epoch != epoch_) make_order(epoch);
  return make(index, rank, {});
}

/// A smaller last batch stays behind all others.
void DataLoader::group_by_length() {
  constexpr std::int64_t kBatches = 64;  // that are sorted together
  if (order_.empty()) {
    order_.resize(at(dataset_.size()));
    std::iota(order_.begin(), order_.end(), 0u);
  }
  PhiloxStream stream(options_.seed + static_cast<std::uint64_t>(epoch_), stream_hash("batches"));
  const std::int64_t batch = options_.batch_size, whole = dataset_.size() / batch * batch;
  for (std::int64_t begin = 0; begin < whole; begin += kBatches * batch) {
    const auto first = order_.begin() + begin, last = order_.begin() + std::min(begin + kBatches * batch, whole);
    std::stable_sort(first, last, [this](std::uint32_t a, std::uint32_t b) { return dataset_.length(a) < dataset_.length(b); });
    for (std::int64_t n = (last - first) / batch; n > 1; --n)
      if (const std::int64_t k = stream.below(static_cast<std::uint32_t>(n)); k != n - 1)
        std::swap_ranges(first + k * batch, first + (k + 1) * batch, first + (n - 1) * batch);
  }
}

std::optional<Batch> DataLoader::next() {
  if (!started_) throw UsageError("loader: next was called before start, or after an error");
  if (next_out_ == batches()) return std::nullopt;
  Slot slot = threads_.empty() ? filled_slot(next_out_, shares_of(next_out_)) : take_slot();
  if (threads_.empty()) ++next_out_;
  if (slot.error) {
    stop();
    std::rethrow_exception(slot.error);
  }
  return std::move(slot.batch);
}

void DataLoader::share(Shares shares) {
  if (std::ssize(shares) != options_.ranks || std::ranges::any_of(shares, [](std::int64_t s) { return s < 0; }) ||
      std::ranges::all_of(shares, [](std::int64_t s) { return s == 0; }))
    throw UsageError(
        fmt::format("loader: the shares are {}; accepted: one a rank, of {}, none below 0 and not all 0", fmt::join(shares, ", "), options_.ranks));
  const std::lock_guard lock(mutex_);
  shares_.insert_or_assign(next_out_ + options_.prefetch, std::move(shares));  // the same on ranks with any number of workers
}

const Shares& DataLoader::shares_of(std::int64_t index) const { return std::prev(shares_.upper_bound(index))->second; }

DataLoader::Slot DataLoader::filled_slot(std::int64_t index, const Shares& shares) const {
  Slot slot;
  try {
    slot.batch = make(index, options_.rank, shares);
  } catch (...) {
    slot.error = std::current_exception();
  }
  return slot;
}

DataLoader::Slot DataLoader::take_slot() {
  Slot taken;
  {
    std::unique_lock lock(mutex_);
    Slot& slot = slots_[at(next_out_ % options_.prefetch)];
    made_.wait(lock, [&] { return slot.batch || slot.error; });
    taken = std::exchange(slot, Slot{});
    ++next_out_;
  }
  room_.notify_one();
  return taken;
}

void DataLoader::work() {
  for (;;) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return stopping_ || next_in_ == batches() || next_in_ < next_out_ + options_.prefetch; });
    if (stopping_ || next_in_ == batches()) return;
    const std::int64_t index = next_in_++;
    const Shares shares = shares_of(index);
    lock.unlock();
    Slot slot = filled_slot(index, shares);
    lock.lock();
    slots_[at(index % options_.prefetch)] = std::move(slot);
    lock.unlock();
    made_.notify_one();
  }
}

void DataLoader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  room_.notify_all();
  threads_.clear();
  slots_.clear();
  started_ = false;
}

Batch DataLoader::make(std::int64_t index, int rank, const Shares& shares) const {
  Batch out{.epoch = epoch_, .index = index};
  const std::int64_t first = index * options_.batch_size, whole = std::min(options_.batch_size, dataset_.size() - first);
  const std::vector<SampleRun> shard =
      shard_of(whole, options_.micro_batches, rank, options_.ranks, whole == std::min(options_.batch_size, dataset_.size()) ? shares : Shares());
  for (const SampleRun& run : shard) {
    out.samples += run.count;
    for (std::int64_t j = 0; j < run.count; ++j) out.positions.push_back(first + run.begin + j);
    if (options_.micro_batches > 1) out.micro_batches.push_back(run.count);
  }
  std::vector<std::int64_t> samples;
  for (const std::int64_t position : out.positions) samples.push_back(order_.empty() ? position : order_[at(position)]);
  out.tensors = dataset_.tensors(samples, options_.augment == Augment::standard ? std::optional(Draws{options_.seed, epoch_}) : std::nullopt);
  // A run of samples that follow each other is told by its first.
  out.first_position = out.positions.empty() ? first + shard[0].begin : out.positions[0];
  if (out.positions.empty() || out.positions.back() - out.first_position + 1 == out.samples) out.positions.clear();
  return out;
}

}  // namespace gemel::datasets
