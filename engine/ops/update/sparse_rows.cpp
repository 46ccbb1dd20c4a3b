// Row gradients, as embeddings have: each row's sum, and updates of those rows of a table in place. The cost follows the number of rows given, not the table.
// The formulas are in opencl/kernels/any/rows.cl.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"
#include "engine/ops/workspace_sections.h"

namespace gemel::inline ops {
namespace {

constexpr std::int64_t kGroup = 64;                                               // work-items
constexpr std::int64_t kRun = 64;                                                 // indices ranked by counting; as in rows.cl
constexpr std::int64_t kRowElements = 4096;                                       // of one work-item of a CPU
constexpr int kParameters = 0, kRows = 1, kSums = 2, kHyper = 3, kFirstSlot = 4;  // inputs of an update
constexpr std::size_t kRate = 0, kBias1 = 2, kBias2 = 3;                          // numbers of a group in hyper

/// How [count, width] is shared out: rows and columns of one work-item, and their range.
struct Share {
  std::int64_t rows, columns;
  opencl::Range range;
};
using Sharing = Share (*)(std::int64_t count, std::int64_t width, const opencl::DeviceProfile& profile);
/// At least so many that the range has not more than drivers take.
std::int64_t rows_of_item(std::int64_t wanted, std::int64_t count) { return std::max({std::int64_t{1}, wanted, ceil_div(count, opencl::kMostGroups)}); }
Share blocks_of_rows(std::int64_t count, std::int64_t width, const opencl::DeviceProfile& profile) {
  const std::int64_t columns = std::max<std::int64_t>(1, width), rows = rows_of_item(kRowElements / columns, count);
  return {rows, columns, range_of_blocks({1, ceil_div(count, rows), 1}, profile)};
}
Share elements(std::int64_t count, std::int64_t width, const opencl::DeviceProfile& profile) {
  const std::int64_t rows = rows_of_item(1, count);
  return {rows, 1, range_of_places({std::max<std::int64_t>(1, width), ceil_div(count, rows), 1}, profile)};
}

std::string index_option(const Spec& indices) { return "-DINDEX=" + std::string(opencl_name(indices.dtype)); }

Specs sum_infer(const Specs& in, const Attributes&) {
  check_integer("sum_rows", "indices", in[0]);
  check_rank("sum_rows", "indices", in[0], 1);
  check_float32("sum_rows", "values", in[1]);
  check_rank("sum_rows", "values", in[1], 2);
  check_shape("sum_rows", "values", in[1], Shape{in[0].shape[0], in[1].shape[1]});
  return {in[0], in[1]};
}

void sum_reference(const HostCall& c) {
  const auto indices = c.integer(0);
  const auto values = c.real(1);
  const auto rows = c.out_integer(0);
  const auto sums = c.out_real(1);
  const std::size_t width = at(c.in_shape(1)[1]);
  std::ranges::fill(rows, -1);
  std::ranges::fill(sums, 0.0);
  std::map<std::int64_t, std::vector<std::size_t>> places;
  for (std::size_t k = 0; k < indices.size(); ++k) places[indices[k]].push_back(k);
  std::size_t begins = 0;
  for (const auto& [row, given] : places) {
    rows[begins] = row;
    for (const std::size_t k : given)
      for (std::size_t i = 0; i < width; ++i) sums[begins * width + i] += values[k * width + i];
    begins += given.size();
  }
}

/// The places of all indices, of which merging holds two versions.
Sections<2> orders(const Spec& indices, const opencl::DeviceProfile& profile) {
  const std::int64_t bytes = indices.elements() * std::int64_t{sizeof(std::int32_t)};
  return {{bytes, bytes}, profile};
}

/// The places of the indices in ascending order, in one half of the workspace.
opencl::Region sorted(const Launch& l) {
  const std::int32_t count = narrow<std::int32_t>(l.in_spec(0).elements());
  const Sections<2> both = orders(l.in_spec(0), l.profile());
  const opencl::Range range = opencl::range1(round_up(count, kGroup), kGroup);
  const std::string option = index_option(l.in_spec(0));
  opencl::Region order = both.in(l.workspace(), 0), next = both.in(l.workspace(), 1);
  l.run("any/rows.cl", "rank_blocks", range, {l.in(0), order, count}, option);
  for (std::int64_t run = kRun; run < count; run *= 2) {
    l.run("any/rows.cl", "merge_runs", range, {l.in(0), order, next, count, static_cast<std::int32_t>(run)}, option);
    std::swap(order, next);
  }
  return order;
}

template <Sharing sharing>
void sum_launch(Launch& l) {
  const std::int64_t width = l.in_shape(1)[1];
  const std::int32_t count = narrow<std::int32_t>(l.in_spec(0).elements());
  if (count == 0) return;
  const opencl::Region order = sorted(l);
  const Share share = sharing(count, width, l.profile());
  const std::int64_t most = std::clamp<std::int64_t>(l.profile().longest_loop / (share.rows * share.columns + 1), 1, count);
  for (std::int64_t begin = 0; begin < count; begin += most)
    l.run("any/rows.cl", "sum_rows", share.range,
          {l.in(0), l.in(1), order, l.out(0), l.out(1), count, width, share.rows, share.columns, static_cast<std::int32_t>(begin),
           static_cast<std::int32_t>(std::min<std::int64_t>(begin + most, count))},
          index_option(l.in_spec(0)));
}

/// Inputs: a table, rows, their sums, hyper with `numbers` numbers a group, then the slots, tables too.
Specs update_infer(const char* op, const Specs& in, const Attributes& a, std::int64_t numbers) {
  check_float32(op, "parameters", in[kParameters]);
  check_rank(op, "parameters", in[kParameters], 2);
  check_integer(op, "rows", in[kRows]);
  check_rank(op, "rows", in[kRows], 1);
  check_float32(op, "sums", in[kSums]);
  check_shape(op, "sums", in[kSums], Shape{in[kRows].shape[0], in[kParameters].shape[1]});
  check_float32(op, "hyper", in[kHyper]);
  check_rank(op, "hyper", in[kHyper], 2);
  check_shape(op, "hyper", in[kHyper], Shape{in[kHyper].shape[0], numbers});
  if (const std::int64_t group = a.integer("group"); group < 0 || group >= in[kHyper].shape[0])
    throw ShapeError(fmt::format("{}: group {} is out of range; accepted: 0..{}", op, group, in[kHyper].shape[0] - 1));
  for (std::size_t i = kFirstSlot; i < in.size(); ++i) {
    check_float32(op, "slot", in[i]);
    check_shape(op, "slot", in[i], in[kParameters].shape);
  }
  return {};
}

/// `flops` an element of the sums; as many are read and written of the parameters and of each slot.
template <int flops>
Cost update_cost(const Problem& p) {
  const std::int64_t tables = static_cast<std::int64_t>(p.inputs.size()) - kFirstSlot + 1;
  return {flops * p.inputs[kSums].elements(), p.inputs[kRows].bytes() + (1 + 2 * tables) * p.inputs[kSums].bytes()};
}

Arguments sgd_numbers(const Attributes&) { return {}; }
Arguments adam_numbers(const Attributes& a) { return {1 - a.real("beta1"), 1 - a.real("beta2"), a.real("eps")}; }

template <Sharing sharing, Arguments (*numbers)(const Attributes&)>
void update_launch(Launch& l) {
  const std::int64_t n = l.in_shape(kParameters)[0], count = l.in_shape(kRows)[0], width = l.in_shape(kParameters)[1];
  if (l.in_spec(kSums).elements() == 0) return;
  const Share share = sharing(count, width, l.profile());
  const Arguments arguments(l.inputs(), n, count, width, share.rows, share.columns, ints(l.attributes().integer("group")), numbers(l.attributes()));
  l.run("any/rows.cl", l.problem().op.name, share.range, arguments, index_option(l.in_spec(kRows)));
}

std::vector<Variant> variants(void (*in_blocks)(Launch&), void (*in_elements)(Launch&), decltype(Variant::workspace_bytes) workspace = nullptr) {
  return {{.name = "blocks", .doc = "a block of rows for each work-item", .target = Target::cpu, .workspace_bytes = workspace, .launch = in_blocks},
          {.name = "items", .doc = "one work-item an element", .workspace_bytes = workspace, .launch = in_elements}};
}

template <Arguments (*numbers)(const Attributes&)>
std::vector<Variant> update_variants() {
  return variants(update_launch<blocks_of_rows, numbers>, update_launch<elements, numbers>);
}

/// Calls f(element of the tables, element of the sums) for every row that there is, with the numbers of the group.
template <class F>
void each_met(const HostCall& c, F f) {
  const auto rows = c.integer(kRows);
  const std::size_t numbers = at(c.in_shape(kHyper)[1]), width = at(c.in_shape(kParameters)[1]);
  const auto hyper = c.real(kHyper).subspan(at(c.attributes().integer("group")) * numbers, numbers);
  for (std::size_t j = 0; j < rows.size(); ++j)
    if (rows[j] >= 0 && rows[j] < c.in_shape(kParameters)[0])
      for (std::size_t i = 0; i < width; ++i) f(at(rows[j]) * width + i, j * width + i, hyper);
}

void sgd_reference(const HostCall& c) {
  const auto p = c.written<double>(kParameters);
  const auto sums = c.real(kSums);
  each_met(c, [&](std::size_t to, std::size_t from, std::span<const double> hyper) { p[to] -= hyper[kRate] * sums[from]; });
}

void adam_reference(const HostCall& c) {
  const auto p = c.written<double>(kParameters), m = c.written<double>(kFirstSlot), v = c.written<double>(kFirstSlot + 1);
  const auto sums = c.real(kSums);
  const double beta1 = c.attributes().real("beta1"), beta2 = c.attributes().real("beta2"), eps = c.attributes().real("eps");
  each_met(c, [&](std::size_t to, std::size_t from, std::span<const double> hyper) {
    const double g = sums[from];
    m[to] = beta1 * m[to] + (1 - beta1) * g;
    v[to] = beta2 * v[to] + (1 - beta2) * g * g;
    p[to] -= hyper[kRate] * std::sqrt(hyper[kBias2]) / hyper[kBias1] * m[to] / (std::sqrt(v[to]) + eps);
  });
}

/// Tables of several widths with rows from -count + 1 to count - 1, no two alike. @param slots  of which the second holds squares
std::vector<Sample> update_samples(std::size_t slots, std::int64_t numbers, const Attributes& attributes) {
  std::vector<Sample> out;
  for (const auto& [n, count, width] : {std::array{7, 6, 5}, std::array{33, 33, 64}, std::array{200, 3, 65}, std::array{5, 0, 3}, std::array{1030, 1025, 1}}) {
    Sample s{{f32({n, width}), out.size() % 2 ? i32({count}) : i64({count}), f32({count, width}), f32({3, numbers})},
             attributes,
             {Fill{}, distinct(-count, count), Fill{}, uniform(0.1, 0.9)}};
    for (std::size_t k = 0; k < slots; ++k) {
      s.inputs.push_back(f32({n, width}));
      s.fills.push_back(k == 1 ? uniform(0.1, 2) : Fill{});
    }
    out.push_back(std::move(s));
  }
  return out;
}

const AttributeDef kGroupOfHyper{"group", Type::integer, "the row of hyper that counts"};

}  // namespace

const OpDef& sum_rows_def() {
  static const OpDef def{
      .name = "sum_rows",
      .doc = "Each index once, in ascending order, with the sum of its rows of values in the order given; -1 and zeros where an index comes up again.",
      .inputs = {"indices", "values"},
      .outputs = {"rows", "sums"},
      .infer = sum_infer,
      .cost =
          [](const Problem& p) {
            return Cost{p.inputs[1].elements(), 2 * (p.inputs[0].bytes() + p.inputs[1].bytes())};
          },
      .reference = sum_reference,
      .variants = variants(sum_launch<blocks_of_rows>, sum_launch<elements>,
                           [](const Problem& p, const opencl::DeviceProfile& profile) { return orders(p.inputs[0], profile).bytes(); }),
      .samples =
          [] {
            return std::vector<Sample>{
                {{i64({6}), f32({6, 5})}, {}, {integers(0, 3), Fill{}}},       {{i32({64}), f32({64, 17})}, {}, {integers(0, 1), Fill{}}},
                {{i64({65}), f32({65, 64})}, {}, {integers(0, 33), Fill{}}},   {{i32({150}), f32({150, 3})}, {}, {integers(0, 60), Fill{}}},
                {{i32({129}), f32({129, 1})}, {}, {distinct(0, 129), Fill{}}}, {{i64({1}), f32({1, 65})}, {}, {integers(0, 9), Fill{}}},
                {{i64({0}), f32({0, 4})}, {}, {integers(0, 9), Fill{}}}};
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{i64({4}), f32({3, 2})}, {}, "sum_rows: values is [3, 2]; accepted: [4, 2]"},
                                         {{f32({4}), f32({4, 2})}, {}, "sum_rows: indices is float32 [4]; accepted: int32 or int64"},
                                         {{i64({4}), f32({4})}, {}, "sum_rows: values is [4], of rank 1; accepted: rank 2"}};
          },
  };
  return def;
}

const OpDef& sgd_rows_update_def() {
  static const OpDef def{
      .name = "sgd_rows_update",
      .doc = "Gradient descent on some rows of a table, each given once, in place; a row below 0 stands for none. hyper is {rate, -} a group.",
      .inputs = {"parameters", "rows", "sums", "hyper"},
      .outputs = {},
      .attributes = {kGroupOfHyper},
      .infer = [](const Specs& in, const Attributes& a) { return update_infer("sgd_rows_update", in, a, 2); },
      .cost = update_cost<2>,
      .reference = sgd_reference,
      .writes = {kParameters},
      .variants = update_variants<sgd_numbers>(),
      .samples =
          [] {
            return update_samples(0, 2, {{"group", std::int64_t{1}}});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{
                {{f32({5, 3}), i64({2}), f32({2, 4}), f32({1, 2})}, {{"group", std::int64_t{0}}}, "sgd_rows_update: sums is [2, 4]; accepted: [2, 3]"},
                {{f32({5, 3}), i64({2}), f32({2, 3}), f32({1, 2})}, {{"group", std::int64_t{1}}}, "sgd_rows_update: group 1 is out of range; accepted: 0..0"},
                {{f32({15}), i64({2}), f32({2, 3}), f32({1, 2})},
                 {{"group", std::int64_t{0}}},
                 "sgd_rows_update: parameters is [15], of rank 1; accepted: rank 2"}};
          },
  };
  return def;
}

const OpDef& adam_rows_update_def() {
  static const OpDef def{
      .name = "adam_rows_update",
      .doc =
          "Lazy Adam on some rows of a table, each given once, in place; a row below 0 stands for none, and other rows keep their moments. "
          "hyper is {rate, -, 1 - beta1^t, 1 - beta2^t} a group.",
      .inputs = {"parameters", "rows", "sums", "hyper", "mean", "variance"},
      .outputs = {},
      .attributes = {kGroupOfHyper,
                     {"beta1", Type::real, "share of the mean that is kept"},
                     {"beta2", Type::real, "share of the variance that is kept"},
                     {"eps", Type::real, "added to the denominator"}},
      .infer = [](const Specs& in, const Attributes& a) { return update_infer("adam_rows_update", in, a, 4); },
      .cost = update_cost<12>,
      .reference = adam_reference,
      .writes = {kParameters, kFirstSlot, kFirstSlot + 1},
      .variants = update_variants<adam_numbers>(),
      .samples =
          [] {
            return update_samples(2, 4, {{"group", std::int64_t{2}}, {"beta1", 0.9}, {"beta2", 0.99}, {"eps", 1e-8}});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({5, 3}), i64({2}), f32({2, 3}), f32({1, 4}), f32({5, 3}), f32({5, 4})},
                                          {{"group", std::int64_t{0}}, {"beta1", 0.9}, {"beta2", 0.99}, {"eps", 1e-8}},
                                          "adam_rows_update: slot is [5, 4]; accepted: [5, 3]"}};
          },
  };
  return def;
}

RowValues sum_rows(RowValues rows) {
  if (rows.whole) return rows;
  Values out = apply(sum_rows_def(), list(std::move(rows.indices), std::move(rows.values)));
  return {std::move(out[0]), std::move(out[1])};
}

void sgd_rows_update(RowUpdate u) {
  apply(sgd_rows_update_def(), list(u.parameters.detached(), std::move(u.sums.indices), std::move(u.sums.values), std::move(u.hyper)), {{"group", u.group}});
}

void adam_rows_update(RowUpdate u, const Value& mean, const Value& variance, const AdamUpdate& adam) {
  apply(adam_rows_update_def(),
        list(u.parameters.detached(), std::move(u.sums.indices), std::move(u.sums.values), std::move(u.hyper), mean.detached(), variance.detached()),
        {{"group", u.group}, {"beta1", adam.beta1}, {"beta2", adam.beta2}, {"eps", adam.eps}});
}

}  // namespace gemel::inline ops
