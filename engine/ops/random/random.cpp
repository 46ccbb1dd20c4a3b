// Random operators: counter-based, so that a draw depends on its key alone (engine/base/philox.h says which).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/base/error.h"
#include "engine/base/philox.h"
#include "engine/core/session.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"
#include "engine/ops/random/draws.h"

namespace gemel::inline ops {
namespace {

constexpr std::int64_t kChunkBlocks = 2048;  // Philox blocks of one work-item on a CPU
constexpr std::int64_t kGroup = 64;          // work-items of a group, one a block

/// A random tensor as [outer, samples, numbers]: which numbers belong to which sample.
struct Layout {
  std::int64_t outer, samples, numbers;
  std::int64_t rows() const { return outer * samples; }
};
Layout layout_of(const Shape& shape, const Attributes& a) {
  const auto axis = a.integer("sample_axis");
  if (axis < 0 || shape.empty()) return {1, 1, shape.elements()};
  const int k = static_cast<int>(axis);
  return {shape.product(0, k), shape[k], shape.product(k + 1, shape.rank())};
}

Keyed keyed_by(const Spec& state, const Attributes& a) { return a.integer("sample_axis") < 0 ? Keyed::none : keyed_by(state); }

void check_samples(const char* op, const Shape& shape, const Spec& state, const Attributes& a) {
  check_state(op, state);
  const std::int64_t axis = a.integer("sample_axis");
  if (axis < kNoSampleAxis || axis >= std::max(1, shape.rank()))
    throw ShapeError(fmt::format("{}: the samples' axis {} is out of range for {}; accepted: 0..{}, or -1 for none", op, axis, to_string(shape),
                                 std::max(1, shape.rank()) - 1));
  const std::int64_t listed = state.shape[0] - kStateNumbers, samples = layout_of(shape, a).samples;
  if (keyed_by(state, a) == Keyed::listed && listed != samples)
    throw ShapeError(fmt::format("{}: {} has {} samples along axis {}, the random state lists {}; accepted: as many, or axis -1 for what belongs to no sample",
                                 op, to_string(shape), samples, axis, listed));
}

// ---- on the host

/// Calls f(index of the first of up to four elements, how many, their random words).
template <class F>
void each_block(const HostCall& c, int state_input, F f) {
  const Layout layout = layout_of(c.out_shape(0), c.attributes());
  const DrawState state = state_of(c, state_input);
  const Keyed keyed = keyed_by(c.in_spec(state_input), c.attributes());
  const auto stream = static_cast<std::uint32_t>(c.attributes().integer("stream"));
  const std::int64_t numbers = layout.numbers;
  for (std::int64_t r = 0; r < layout.rows(); ++r) {
    const std::int64_t place = place_of(c, state_input, keyed, r % layout.samples), before = r / layout.samples * ceil_div(numbers, 4);
    for (std::int64_t i = 0; i < numbers; i += 4)
      f(at(r * numbers + i), at(std::min<std::int64_t>(4, numbers - i)), draw(state, stream, place, before + i / 4));
  }
}

void dropout_reference(const HostCall& c) {
  const auto threshold = static_cast<std::uint32_t>(dropout_threshold(c.attributes().real("rate")));
  const double scale = dropout_scale(c.attributes().real("rate"));
  each_block(c, 1, [&](std::size_t i, std::size_t count, const PhiloxCounter& words) {
    for (std::size_t k = 0; k < count; ++k) c.out_real(0)[i + k] = (words[k] >> 8) < threshold ? 0 : c.real(0)[i + k] * scale;
  });
}

void uniform_reference(const HostCall& c) {
  const double low = c.attributes().real("low"), range = c.attributes().real("high") - low;
  each_block(c, 0, [&](std::size_t i, std::size_t count, const PhiloxCounter& words) {
    for (std::size_t k = 0; k < count; ++k) c.out_real(0)[i + k] = low + range * double{unit_float(words[k])};
  });
}

void normal_reference(const HostCall& c) {  // G. E. P. Box and M. E. Muller, 1958
  const double mean = c.attributes().real("mean"), deviation = c.attributes().real("deviation");
  each_block(c, 0, [&](std::size_t i, std::size_t count, const PhiloxCounter& words) {
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t pair = k / 2 * 2;
      const double radius = std::sqrt(-2 * std::log((static_cast<double>(words[pair] >> 8) + 1) * 0x1p-24));
      const double angle = 2 * std::numbers::pi * double{unit_float(words[pair + 1])};
      c.out_real(0)[i + k] = mean + deviation * radius * (k == pair ? std::cos(angle) : std::sin(angle));
    }
  });
}

void fold_in_reference(const HostCall& c) {
  std::ranges::copy(c.integer(0), c.out_integer(0).begin());
  c.out_integer(0)[3] = static_cast<std::int64_t>(fold_hash(static_cast<std::uint64_t>(c.integer(0)[3]), static_cast<std::uint64_t>(c.integer(1)[0] + 1)));
}

// ---- on the device

/// Philox blocks, samples and layers of one work-item; work-items of a group.
struct Blocking {
  std::int64_t columns, samples, outer, group;
  const char* options;
};
Blocking for_cpu(const Layout& layout) {
  const std::int64_t columns = std::clamp<std::int64_t>(ceil_div(layout.numbers, 4), 1, kChunkBlocks), rows = ceil_div(kChunkBlocks, columns);
  const std::int64_t samples = std::clamp<std::int64_t>(layout.samples, 1, rows);
  return {columns, samples, ceil_div(rows, samples), 1, "-DLANES=8"};
}
Blocking for_gpu(const Layout&) { return {1, 1, 1, kGroup, "-DLANES=1"}; }

/// Kernel arguments: the tensors, the sizes, the stream, then the operator's own numbers.
template <Arguments (*numbers)(const Attributes&), Blocking (*blocking)(const Layout&)>
void launch(Launch& l) {
  const Layout layout = layout_of(l.out_shape(0), l.attributes());
  const std::int64_t blocks = ceil_div(layout.numbers, 4);
  Blocking b = blocking(layout);
  b.samples = std::max(b.samples, ceil_div(layout.samples, opencl::kMostGroups));
  b.outer = std::max(b.outer, ceil_div(layout.outer, opencl::kMostGroups));
  const int inputs = static_cast<int>(l.problem().inputs.size());
  const auto keyed = static_cast<std::int64_t>(keyed_by(l.in_spec(inputs - 1), l.attributes()));  // the state is the last input
  const Arguments arguments(l.inputs(), l.out(0), layout.outer, layout.samples, layout.numbers, keyed, b.outer, b.samples, b.columns,
                            l.attributes().integer("stream"), numbers(l.attributes()));
  const auto range =
      opencl::range3({round_up(ceil_div(blocks, b.columns), b.group), ceil_div(layout.samples, b.samples), ceil_div(layout.outer, b.outer)}, {b.group, 1, 1});
  l.run("any/random.cl", l.problem().op.name, range, arguments, b.options);
}

template <Arguments (*numbers)(const Attributes&)>
std::vector<Variant> variants() {
  return {{.name = "chunks", .doc = "a run of samples and blocks for each work-item", .target = Target::cpu, .launch = launch<numbers, for_cpu>},
          {.name = "items", .doc = "one work-item a block of four numbers", .launch = launch<numbers, for_gpu>}};
}

Arguments dropout_numbers(const Attributes& a) {
  return {static_cast<float>(dropout_threshold(a.real("rate"))), static_cast<float>(dropout_scale(a.real("rate")))};
}
Arguments uniform_numbers(const Attributes& a) { return {static_cast<float>(a.real("low")), static_cast<float>(a.real("high") - a.real("low"))}; }
Arguments normal_numbers(const Attributes& a) { return {static_cast<float>(a.real("mean")), static_cast<float>(a.real("deviation"))}; }

// ---- records

Specs dropout_infer(const Specs& in, const Attributes& a) {
  check_float32("dropout", "x", in[0]);
  check_samples("dropout", in[0].shape, in[1], a);
  check_rate("dropout", a.real("rate"));
  return {in[0]};
}

const Fill kState = integers(0, 1000);
constexpr std::int64_t kStream = 0x8badf00d;
const AttributeDef kShapeAttribute{"shape", Type::shape, "of the result"};
const AttributeDef kSampleAxisAttribute{"sample_axis", Type::integer, "axis that counts samples, by whose places numbers are drawn; -1: they belong to none"};

/// Which axis counts samples, and how long the state is, for shape k of the generated samples.
struct Drawn {
  std::int64_t axis;
  Spec state;
};
Drawn drawn(const Shape& shape, std::size_t k) {
  const std::int64_t axis = shape.empty() ? 0 : static_cast<std::int64_t>(k % at(shape.rank() + 1)) - 1;
  const bool listed = k % 2 == 0 && axis >= 0 && !shape.empty();
  return {axis, i64({kStateNumbers + (listed ? shape[static_cast<int>(axis)] : 0)})};
}
const std::vector<Shape> kSampleShapes{{3, 5}, {65}, {2, 33, 7}, {}, {1, 4100}, {17, 16}, {0, 3}, {3, 0}, {5, 18}, {2, 33, 7}, {4, 3, 37}};

/// Samples of a tensor made from the state alone, with two real attributes.
std::vector<Sample> made_samples(const char* first, const char* second, double a, double b) {
  std::vector<Sample> out;
  for (const Shape& shape : kSampleShapes) {
    const auto [axis, state] = drawn(shape, out.size());
    out.push_back({{state}, {{"shape", shape}, {first, a}, {second, b}, {"stream", kStream}, {"sample_axis", axis}}, {kState}});
  }
  return out;
}

}  // namespace

const OpDef& dropout_def() {
  static const OpDef def{
      .name = "dropout",
      .doc = "Zeroes a random share of x and scales the rest by 1 / (1 - rate).",
      .inputs = {"x", "state"},
      .attributes = {{"rate", Type::real, "share that is zeroed, 0..1"}, kStreamAttribute, kSampleAxisAttribute},
      .infer = dropout_infer,
      .cost = per_element<15>,
      .reference = dropout_reference,
      .gradient = [](const Backward& b) -> Values {  // the same key draws the same mask
        return {apply(dropout_def(), list(b.gradient(0), b.input(1)), b.attributes())[0], Value()};
      },
      .gradient_reads = {inputs(1), nothing},
      .draws = 1,
      .may_reuse = {{0, 0}},
      .variants = variants<dropout_numbers>(),
      .samples =
          [] {
            std::vector<Sample> out;
            double rate = 0;
            for (const Shape& shape : kSampleShapes) {
              const auto [axis, state] = drawn(shape, out.size());
              rate = rate < 1 ? rate + 0.125 : 0.125;
              out.push_back({{{shape, DType::float32}, state}, {{"rate", rate}, {"stream", kStream}, {"sample_axis", axis}}, {Fill{}, kState}});
            }
            return out;
          },
      .rejected =
          [] {
            const auto with = [](double rate, std::int64_t axis) { return Attributes{{"rate", rate}, {"stream", std::int64_t{1}}, {"sample_axis", axis}}; };
            return std::vector<Rejected>{
                {{f32({2}), i64({4})}, with(1.5, 0), "dropout: rate 1.5 is out of range; accepted: 0..1"},
                {{i32({2}), i64({4})}, with(0.5, 0), "dropout: x is int32 [2]; accepted: float32"},
                {{f32({2}), i64({2})}, with(0.5, 0), "dropout: state is int64 [2]; accepted: int64 [4], or [4 + samples]"},
                {{f32({2}), i64({4})}, with(0.5, 1), "dropout: the samples' axis 1 is out of range for [2]; accepted: 0..0, or -1 for none"},
                {{f32({2}), i64({7})},
                 with(0.5, 0),
                 "dropout: [2] has 2 samples along axis 0, the random state lists 3; accepted: as many, or axis -1 for what belongs to no sample"}};
          },
  };
  return def;
}

const OpDef& random_uniform_def() {
  static const OpDef def{
      .name = "random_uniform",
      .doc = "Uniform numbers from low (included) to high, of 24 random bits.",
      .inputs = {"state"},
      .attributes = {kShapeAttribute, {"low", Type::real, "lower bound"}, {"high", Type::real, "upper bound"}, kStreamAttribute, kSampleAxisAttribute},
      .infer = [](const Specs& in, const Attributes& a) -> Specs {
        check_samples("random_uniform", a.shape("shape"), in[0], a);
        return {{a.shape("shape"), DType::float32}};
      },
      .cost = per_element<15>,
      .reference = uniform_reference,
      .draws = 0,
      .variants = variants<uniform_numbers>(),
      .samples = [] { return made_samples("low", "high", -1, 3); },
      .rejected =
          [] {
            const Attributes beyond{{"shape", Shape{2}}, {"low", 0.0}, {"high", 1.0}, {"stream", std::int64_t{1}}, {"sample_axis", std::int64_t{1}}};
            return std::vector<Rejected>{{{i64({2})}, beyond, "random_uniform: state is int64 [2]; accepted: int64 [4], or [4 + samples]"},
                                         {{i64({4})}, beyond, "random_uniform: the samples' axis 1 is out of range for [2]; accepted: 0..0, or -1 for none"}};
          },
  };
  return def;
}

const OpDef& random_normal_def() {
  static const OpDef def{
      .name = "random_normal",
      .doc = "Normally distributed numbers.",
      .inputs = {"state"},
      .attributes = {kShapeAttribute,
                     {"mean", Type::real, "of the distribution"},
                     {"deviation", Type::real, "its standard deviation"},
                     kStreamAttribute,
                     kSampleAxisAttribute},
      .infer = [](const Specs& in, const Attributes& a) -> Specs {
        check_samples("random_normal", a.shape("shape"), in[0], a);
        return {{a.shape("shape"), DType::float32}};
      },
      .cost = per_element<30>,
      .reference = normal_reference,
      .draws = 0,
      .variants = variants<normal_numbers>(),
      .samples = [] { return made_samples("mean", "deviation", 0.5, 2); },
      .rejected =
          [] {
            const Attributes beyond{{"shape", Shape{2}}, {"mean", 0.0}, {"deviation", 1.0}, {"stream", std::int64_t{1}}, {"sample_axis", std::int64_t{1}}};
            return std::vector<Rejected>{{{i64({2})}, beyond, "random_normal: state is int64 [2]; accepted: int64 [4], or [4 + samples]"},
                                         {{i64({4})}, beyond, "random_normal: the samples' axis 1 is out of range for [2]; accepted: 0..0, or -1 for none"}};
          },
  };
  return def;
}

const OpDef& fold_in_def() {
  static const OpDef def{
      .name = "fold_in",
      .doc = "Another random state for a trip of a loop.",
      .inputs = {"state", "count"},
      .infer = [](const Specs& in, const Attributes&) -> Specs {
        check_state("fold_in", in[0]);
        if (in[1] != i64({})) throw ShapeError(fmt::format("fold_in: count is {}; accepted: int64 []", to_string(in[1])));
        return {in[0]};
      },
      .cost = per_element<1>,
      .reference = fold_in_reference,
      .variants = {{.name = "item",
                    .doc = "one work-item",
                    .launch =
                        [](Launch& l) {
                          l.run("any/random.cl", "fold_in", opencl::range1(1, 1), {l.in(0), l.in(1), l.out(0), l.in_spec(0).elements()}, "-DLANES=1");
                        }}},
      .samples =
          [] {
            return std::vector<Sample>{{{i64({4}), i64({})}, {}, {kState, integers(0, 9)}}, {{i64({9}), i64({})}, {}, {kState, integers(0, 9)}}};
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{i64({4}), i32({})}, {}, "fold_in: count is int32 []; accepted: int64 []"},
                                         {{i64({3}), i64({})}, {}, "fold_in: state is int64 [3]; accepted: int64 [4], or [4 + samples]"}};
          },
  };
  return def;
}

Value dropout(Value x, double rate, int sample_axis) {
  if (rate == 0) return x;
  Session& session = x.session();
  const std::int64_t stream = session.random().next_stream(*session.scope());
  return apply(session, dropout_def(), list(std::move(x), session.random().state()),
               {{"rate", rate}, {"stream", stream}, {"sample_axis", std::int64_t{sample_axis}}})[0];
}

namespace {
Attributes draw_of(Session& session, const Shape& shape, int sample_axis) {
  const std::int64_t axis = shape.empty() ? kNoSampleAxis : sample_axis;
  return {{"shape", shape}, {"stream", session.random().next_stream(*session.scope())}, {"sample_axis", axis}};
}
}  // namespace

Value random_uniform(Session& session, const Shape& shape, double low, double high, int sample_axis) {
  Attributes attributes = draw_of(session, shape, sample_axis);
  attributes.set("low", low);
  attributes.set("high", high);
  return apply(session, random_uniform_def(), list(session.random().state()), std::move(attributes))[0];
}

Value random_normal(Session& session, const Shape& shape, double mean, double deviation, int sample_axis) {
  Attributes attributes = draw_of(session, shape, sample_axis);
  attributes.set("mean", mean);
  attributes.set("deviation", deviation);
  return apply(session, random_normal_def(), list(session.random().state()), std::move(attributes))[0];
}

Value fold_in(Value state, Value count) { return apply(fold_in_def(), list(std::move(state), std::move(count)))[0]; }

}  // namespace gemel::inline ops
