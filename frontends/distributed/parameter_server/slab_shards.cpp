#include "frontends/distributed/parameter_server/slab_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engine/base/error.h"
#include "engine/base/hash.h"
#include "engine/base/numbers.h"
#include "parallel/parameter_server/parameter_shards.h"

namespace gemel::distributed {
namespace {

constexpr std::int64_t kFloat = sizeof(float);

std::int64_t page_bytes(const Value& parameter) { return Slab::pages_for(parameter.spec()) * Slab::kPageElements * kFloat; }

}  // namespace

SlabShards::SlabShards(Session& session, train::Task& task, const Specs& batch, int servers, const PackOptions& options) : of_(at(servers)) {
  const Values parameters = values_of(task.module().parameters().trainable());
  std::vector<std::int64_t> bytes;
  for (const Value& p : parameters) bytes.push_back(page_bytes(p));
  const std::vector<int> server = parallel::shards_of(bytes, servers);
  const std::vector<std::size_t> order = train::backward_outline(session, task, batch).order;  // as one process has it, so that norms are summed in its order
  train::pack_parameters(task.module(), order, options);
  std::size_t before = 0;
  std::vector<std::size_t> own(at(servers), 0);
  for (const std::size_t i : order) {
    const Node& node = *parameters[i].node();
    server_of_[&node] = server[i];
    if (slabs_.empty() || slabs_.back() != node.slab) slabs_.push_back(node.slab);
    const Value& place = node.slab->parameters().part(node.index_in_slab);
    const std::int64_t first = place.storage()->first, elements = bytes[i] / kFloat;
    std::vector<Range>& ranges = of_[at(server[i])];
    if (!ranges.empty() && ranges.back().slab == node.slab && ranges.back().first + ranges.back().elements == first)
      ranges.back().elements += elements;
    else
      ranges.push_back({node.slab, first, elements, {own[at(server[i])], before}});
    own[at(server[i])] += at(bytes[i]);
    before += at(bytes[i]);
    const std::int64_t numbers[] = {static_cast<std::int64_t>(i), server[i], elements};
    fingerprint_ = hash_of(std::as_bytes(std::span(numbers)), fingerprint_);
  }
}

void SlabShards::require_same(int rank, std::int64_t fingerprint_of_rank) const {
  if (static_cast<std::uint64_t>(fingerprint_of_rank) != fingerprint_)
    throw CommError(fmt::format("parameter server: rank {} divides the parameters otherwise than the servers; accepted: the same model", rank));
}

Value SlabShards::view(const Range& range, What what) {
  const Slab& slab = what == What::parameters ? range.slab->parameters() : range.slab->gradients();
  return slab.whole().view(f32({range.elements}), range.first);
}

std::int64_t SlabShards::bytes(int server) const {
  std::int64_t sum = 0;
  for (const Range& r : of_[at(server)]) sum += r.elements * kFloat;
  return sum;
}

std::int64_t SlabShards::pages() const {
  std::int64_t sum = 0;
  for (int s = 0; s < servers(); ++s) sum += bytes(s);
  return sum;
}

std::int64_t SlabShards::pages(train::Task& task) {
  std::int64_t sum = 0;
  for (const NamedValue& p : task.module().parameters().trainable()) sum += page_bytes(p.value);
  return sum;
}

void SlabShards::read(int server, What what, std::span<std::byte> to, Lies lies) const {
  for (const Range& r : of_[at(server)]) {
    const Value from = view(r, what);
    from.session().interpreter().read(from, to.subspan(r.place.in(lies), at(r.elements * kFloat)));
  }
}

void SlabShards::write(int server, What what, const Bytes& from) const {
  write(server, what,
        [&](std::span<std::byte> bytes, const Place& place) { std::memcpy(bytes.data(), from.bytes.data() + place.in(from.lies), bytes.size()); });
}

void SlabShards::write(int server, What what, const std::function<void(std::span<std::byte>, const Place&)>& make) const {
  for (const Range& r : of_[at(server)]) {
    const Value to = view(r, what);
    to.session().interpreter().write(to, [&](std::span<std::byte> bytes) { make(bytes, r.place); });
    count_write(*to.storage());
  }
}

void SlabShards::count_as_written(int server, What what) const {
  for (const Range& r : of_[at(server)]) count_write(*view(r, what).storage());
}

}  // namespace gemel::distributed
