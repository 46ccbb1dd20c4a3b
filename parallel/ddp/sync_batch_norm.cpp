#include "parallel/ddp/sync_batch_norm.h"

#include <algorithm>
#include <span>
#include <vector>

#include "engine/base/numbers.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"

namespace gemel::parallel {
namespace {

std::vector<std::byte> bytes_of(const Value& value, const Event& computed) {
  const HostView view = map(value, Access::read, computed);
  const auto bytes = view.bytes();
  return {bytes.begin(), bytes.end()};
}

void fill(const Value& value, std::span<const std::byte> bytes, const Event& computed) {
  HostView view = map(value, Access::write, computed);
  std::ranges::copy(bytes, view.bytes().begin());
  view.release().wait();
}

MomentsOverRanks& ranks_of(const Attributes& a) { return static_cast<MomentsOverRanks&>(*a.state("ranks")); }

void execute_gather(Interpreter&, const Attributes& a, std::span<const Value> in, std::span<const Value> out) {
  const Values from(in.begin(), in.end()), to(out.begin(), out.end());
  ranks_of(a).exchange([from, to, rows = a.integer("rows")](Collectives& c, const Event& computed) {
    const std::vector<std::byte> mean = bytes_of(from[0], computed), squares = bytes_of(from[1], computed);
    const auto count = std::as_bytes(std::span(&rows, 1));
    std::vector<std::byte> mine(mean);
    mine.insert(mine.end(), squares.begin(), squares.end());
    mine.insert(mine.end(), count.begin(), count.end());
    const auto all = c.all_gather(mine);
    const std::size_t lengths[] = {mean.size(), squares.size(), count.size()};
    for (std::size_t i = 0, begin = 0; i < to.size(); begin += lengths[i++]) {
      std::vector<std::byte> column;
      for (const auto& theirs : all) {
        if (theirs.empty()) {  // it has joined: moments of no rows
          column.resize(column.size() + lengths[i]);
          continue;
        }
        const auto part = std::span(theirs).subspan(begin, lengths[i]);
        column.insert(column.end(), part.begin(), part.end());
      }
      fill(to[i], column, computed);
    }
  });
}

void execute_gather_backward(Interpreter&, const Attributes& a, std::span<const Value> in, std::span<const Value> out) {
  const Values from(in.begin(), in.end()), to(out.begin(), out.end());
  ranks_of(a).exchange([from, to](Collectives& c, const Event& computed) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::vector<std::byte> sums = bytes_of(from[i], computed);
      c.all_reduce({sums.data(), from[i].elements(), DType::float32});
      const std::size_t row = sums.size() / at(c.size());
      fill(to[i], std::span(sums).subspan(at(c.rank()) * row, row), computed);
    }
  });
}

// In no catalog, like all that works with a State, which stays in its process.

const OpDef& gather_backward_def() {
  static const OpDef def{
      .name = "gather_moments_backward",
      .doc = "Gradients of what a rank gave, summed over the ranks that used it.",
      .inputs = {"dmean", "dsquares"},
      .outputs = {"dmean", "dsquares"},
      .attributes = {{"ranks", Type::state, "with which they are summed"}},
      .infer = [](const Specs& in, const Attributes&) { return Specs(2, f32({in[0].shape[1]})); },
      .cost = [](const Problem&) { return Cost{}; },
      .execute = execute_gather_backward,
  };
  return def;
}

Values gather_gradient(const Backward& b) {
  Values given;
  for (const int i : {0, 1}) given.push_back(b.has_gradient(i) ? b.gradient(i) : full(b.gradient(1 - i).session(), b.gradient(1 - i).spec(), 0));
  return apply(gather_backward_def(), given, {{"ranks", b.attributes().state("ranks")}});
}

const OpDef& gather_def() {
  static const OpDef def{
      .name = "gather_moments",
      .doc = "The moments of the shards of all ranks, in the order of ranks.",
      .inputs = {"mean", "squares"},
      .outputs = {"mean", "squares", "rows"},
      .attributes = {{"ranks", Type::state, "of which they are gathered"}, {"parts", Type::integer, "ranks"}, {"rows", Type::integer, "of this rank's shard"}},
      .infer =
          [](const Specs& in, const Attributes& a) {
            const Spec parts = f32({a.integer("parts"), in[0].shape[0]});
            return Specs{parts, parts, i64({a.integer("parts")})};
          },
      .cost = [](const Problem&) { return Cost{}; },
      .gradient = gather_gradient,
      .gradient_reads = {nothing},
      .execute = execute_gather,
  };
  return def;
}

}  // namespace

PartMoments MomentsOverRanks::gather(const Moments& mine, std::int64_t rows) {
  Values out = apply(gather_def(), list(mine.mean, mine.squares),
                     {{"ranks", std::shared_ptr<State>(shared_from_this())}, {"parts", std::int64_t{communication_.size()}}, {"rows", rows}});
  return {std::move(out[0]), std::move(out[1]), std::move(out[2])};
}

}  // namespace gemel::parallel
