#include "parallel/horovod/fusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <tuple>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "parallel/collectives/half_precision.h"
#include "parallel/collectives/host_reduce.h"

namespace gemel::parallel::horovod {
namespace {

class OnHost : public Buffer {
 public:
  explicit OnHost(std::span<std::byte> bytes, std::shared_ptr<void> owner = {}) : bytes_(bytes), owner_(std::move(owner)) {}
  std::span<std::byte> open() override { return bytes_; }

 private:
  std::span<std::byte> bytes_;
  std::shared_ptr<void> owner_;
};

auto kind_of(const Request& r) { return std::tuple(r.dtype, r.wire, r.reduction, r.prescale, r.postscale); }
std::int64_t wire_bytes(const Request& r) { return r.shape.elements() * static_cast<std::int64_t>(size_of(r.wire)); }

template <class To, class From, class Convert>
void convert(std::byte* to, const std::byte* from, std::int64_t count, Convert one) {
  std::transform(reinterpret_cast<const From*>(from), reinterpret_cast<const From*>(from) + count, reinterpret_cast<To*>(to), one);
}

void pack(const Elements& to, std::span<const std::byte> from, DType dtype) {
  if (to.dtype == dtype) return static_cast<void>(std::ranges::copy(from, to.first));
  if (to.dtype == DType::float16)
    convert<std::uint16_t, float>(to.first, from.data(), to.count, narrow_float16);
  else
    convert<std::uint16_t, float>(to.first, from.data(), to.count, narrow_bfloat16);
}

void unpack(std::span<std::byte> to, const Elements& from, DType dtype) {
  if (from.dtype == dtype) return static_cast<void>(std::copy_n(from.first, to.size(), to.data()));
  if (from.dtype == DType::float16)
    convert<float, std::uint16_t>(to.data(), from.first, from.count, widen_float16);
  else
    convert<float, std::uint16_t>(to.data(), from.first, from.count, widen_bfloat16);
}

/// Whether this rank's tensors lie behind each other, so that they are one as they lie. Other ranks may pack theirs.
bool contiguous(std::span<const Fusion::Part> parts, std::span<const std::span<std::byte>> opened) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].buffer || parts[i].request.wire != parts[i].request.dtype) return false;
    if (i > 0 && opened[i - 1].data() + opened[i - 1].size() != opened[i].data()) return false;
  }
  return true;
}

void reduce(Collectives& c, const Elements& all, Reduction reduction, int givers) {
  c.all_reduce(all, reduction == Reduction::mean ? Reduction::sum : reduction);
  if (reduction == Reduction::mean) divide(all, givers);
}

}  // namespace

void scale(const Elements& data, double factor) {
  if (factor == 1) return;
  const auto each = [&](auto* values, auto load, auto store) {
    for (std::int64_t i = 0; i < data.count; ++i) values[i] = store(static_cast<float>(load(values[i]) * factor));
  };
  const auto as_is = [](float v) { return v; };
  switch (data.dtype) {
    case DType::float32:
      return each(reinterpret_cast<float*>(data.first), as_is, as_is);
    case DType::float16:
      return each(reinterpret_cast<std::uint16_t*>(data.first), widen_float16, narrow_float16);
    case DType::bfloat16:
      return each(reinterpret_cast<std::uint16_t*>(data.first), widen_bfloat16, narrow_bfloat16);
    default:
      throw InternalError(fmt::format("horovod: {} is scaled", to_string(data.dtype)));
  }
}

std::shared_ptr<Buffer> host_buffer(std::span<std::byte> bytes) { return std::make_shared<OnHost>(bytes); }
std::shared_ptr<Buffer> host_buffer(std::shared_ptr<std::vector<std::byte>> bytes) {
  const std::span<std::byte> all = *bytes;
  return std::make_shared<OnHost>(all, std::move(bytes));
}

std::vector<std::vector<std::size_t>> fused(std::span<const Request> requests, std::int64_t most_bytes) {
  std::vector<std::vector<std::size_t>> out;
  std::vector<bool> taken(requests.size());
  const auto joins = [&](std::size_t k, const Request& other) {
    return !taken[k] && requests[k].operation == Operation::all_reduce && kind_of(requests[k]) == kind_of(other);
  };
  // A request, or what there is of its group.
  const auto undivided = [&](std::size_t one) {
    if (requests[one].group.empty()) return std::vector{one};
    std::vector<std::size_t> all;
    for (std::size_t k = 0; k < requests.size(); ++k)
      if (requests[k].group == requests[one].group && joins(k, requests[one])) all.push_back(k);
    return all;
  };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (taken[i]) continue;
    out.emplace_back();
    std::int64_t bytes = 0;
    for (std::size_t k = i; k < requests.size(); ++k) {
      if (k > i && !joins(k, requests[i])) continue;
      const std::vector<std::size_t> more = undivided(k);
      std::int64_t more_bytes = 0;
      for (const std::size_t m : more) more_bytes += wire_bytes(requests[m]);
      if (k > i && bytes + more_bytes > most_bytes) continue;
      bytes += more_bytes;
      for (const std::size_t m : more) taken[m] = true;
      out.back().insert(out.back().end(), more.begin(), more.end());
      if (requests[i].operation != Operation::all_reduce) break;
    }
  }
  return out;
}

/// Nothing here may wait for other ranks: theirs may lie behind each other, so that they do not come here.
Elements Fusion::packing(std::int64_t count, DType dtype) {
  const std::int64_t bytes = count * static_cast<std::int64_t>(size_of(dtype));
  if (bytes <= shared_.bytes) return {shared_.first.get(), count, dtype};
  const auto grown = std::bit_ceil(static_cast<std::uint64_t>(bytes));
  if (private_.size() < grown) private_.resize(grown);
  if (can_share_) wanted_bytes_ = std::max(wanted_bytes_, static_cast<std::int64_t>(grown));
  return {private_.data(), count, dtype};
}

void Fusion::share(Collectives& c, std::int64_t bytes) {
  wanted_bytes_ = 0;
  if (bytes <= shared_.bytes) return;
  shared_ = {};
  shared_ = c.allocate_shared(bytes);
  can_share_ = shared_.first != nullptr;
  if (can_share_) private_ = {};
}

void Fusion::reduce_packed(Collectives& c, std::span<const Part> parts, std::span<const std::span<std::byte>> opened, int givers) {
  const Request& first = parts[0].request;
  std::int64_t count = 0;
  for (const Part& p : parts) count += p.request.shape.elements();
  const Elements all = packing(count, first.wire);
  std::int64_t begin = 0;
  const auto each = [&](const auto& f) {
    begin = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::int64_t n = parts[i].request.shape.elements();
      f(i, all.part(begin, n));
      begin += n;
    }
  };
  {
    const Timeline::Phases phases(timeline_, parts, "MEMCPY_IN_FUSION_BUFFER");
    each([&](std::size_t i, const Elements& to) {
      if (parts[i].buffer) pack(to, opened[i], parts[i].request.dtype);
    });
    scale(all, first.prescale);
    each([&](std::size_t i, const Elements& to) {
      if (!parts[i].buffer) fill_neutral(to, first.reduction);
    });
  }
  {
    const Timeline::Phases phases(timeline_, parts, "ALLREDUCE");
    reduce(c, all, first.reduction, givers);
  }
  const Timeline::Phases phases(timeline_, parts, "MEMCPY_OUT_FUSION_BUFFER");
  scale(all, first.postscale);
  each([&](std::size_t i, const Elements& from) {
    if (!opened[i].empty()) unpack(opened[i], from, parts[i].request.dtype);
  });
}

void Fusion::all_reduce(Collectives& c, std::span<const Part> parts, int givers) {
  std::vector<std::span<std::byte>> opened;
  {
    const Timeline::Phases phases(timeline_, parts, "WAIT_FOR_DATA");
    for (const Part& p : parts) opened.push_back(p.buffer ? p.buffer->open() : std::span<std::byte>());
  }
  if (contiguous(parts, opened)) {
    const Timeline::Phases phases(timeline_, parts, "ALLREDUCE");
    const Request& first = parts[0].request;
    const std::byte* const end = opened.back().data() + opened.back().size();
    const Elements all{opened[0].data(), (end - opened[0].data()) / static_cast<std::int64_t>(size_of(first.dtype)), first.dtype};
    scale(all, first.prescale);
    reduce(c, all, first.reduction, givers);
    scale(all, first.postscale);
  } else {
    reduce_packed(c, parts, opened, givers);
  }
  for (const Part& p : parts)
    if (p.buffer) p.buffer->close();
}

}  // namespace gemel::parallel::horovod
