// Random operators: counter-based, so that a draw depends on its key alone (engine/base/philox.h says which).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/base/error.h"
#include "engine/base/philox.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"
#include "engine/session.h"

namespace gemel {
namespace {

constexpr std::int64_t kChunkBlocks = 2048;  // Philox blocks of one work-item on a CPU
constexpr std::int64_t kGroup = 64;          // work-items of a group, one a block

void check_state(const char* op, const Spec& state) {
  if (state != i64({4})) throw ShapeError(fmt::format("{}: state is {}; accepted: int64 [4]", op, to_string(state)));
}

/// Random tensors are rows of samples: axis 0 counts samples, the others lie within one.
struct Samples {
  std::int64_t samples, numbers;
};
Samples samples_of(const Shape& shape) { return shape.empty() ? Samples{1, 1} : Samples{shape[0], shape.product(1, shape.rank())}; }

// ---- on the host

DrawState state_of(const HostCall& c, int input) {
  const auto s = c.integer(input);
  return {s[0], s[1], s[2], s[3]};
}

/// Calls f(index of the first of up to four elements, how many, their random words).
template <class F>
void each_block(const HostCall& c, int state_input, F f) {
  const auto [samples, numbers] = samples_of(c.out_shape(0));
  const DrawState state = state_of(c, state_input);
  const auto stream = static_cast<std::uint32_t>(c.attributes().integer("stream"));
  for (std::int64_t s = 0; s < samples; ++s)
    for (std::int64_t i = 0; i < numbers; i += 4) f(at(s * numbers + i), at(std::min<std::int64_t>(4, numbers - i)), draw(state, stream, s, i / 4));
}

/// Of 24 random bits; the same integer on host and device, so that both drop the same elements.
std::int32_t threshold_of(const Attributes& a) { return static_cast<std::int32_t>(std::llround(a.real("rate") * 0x1p24)); }
double scale_of(const Attributes& a) { return a.real("rate") < 1 ? 1 / (1 - a.real("rate")) : 0; }

void dropout_reference(const HostCall& c) {
  const auto threshold = static_cast<std::uint32_t>(threshold_of(c.attributes()));
  const double scale = scale_of(c.attributes());
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
  std::copy_n(c.integer(0).begin(), 3, c.out_integer(0).begin());
  c.out_integer(0)[3] = static_cast<std::int64_t>(fold_hash(static_cast<std::uint64_t>(c.integer(0)[3]), static_cast<std::uint64_t>(c.integer(1)[0] + 1)));
}

// ---- on the device

using Arguments = std::vector<opencl::Argument>;
struct Blocking {
  std::int64_t rows, columns, group;  // samples and Philox blocks of one work-item; work-items of a group
  const char* options;
};
Blocking for_cpu(std::int64_t blocks) {
  const std::int64_t columns = std::clamp<std::int64_t>(blocks, 1, kChunkBlocks);
  return {ceil_div(kChunkBlocks, columns), columns, 1, "-DLANES=8"};
}
Blocking for_gpu(std::int64_t) { return {1, 1, kGroup, "-DLANES=1"}; }

/// Kernel arguments: the tensors, the sizes, the stream, then the operator's own numbers.
template <Arguments (*numbers)(const Attributes&), Blocking (*blocking)(std::int64_t)>
void launch(Launch& l) {
  const auto [samples, count] = samples_of(l.out_shape(0));
  const std::int64_t blocks = ceil_div(count, 4);
  Blocking b = blocking(blocks);
  b.rows = std::max(b.rows, ceil_div(samples, opencl::kMostGroups));
  Arguments arguments;
  for (std::size_t i = 0; i < l.problem().inputs.size(); ++i) arguments.emplace_back(l.in(static_cast<int>(i)));
  arguments.emplace_back(l.out(0));
  for (std::int64_t v : {samples, count, b.rows, b.columns, l.attributes().integer("stream")}) arguments.emplace_back(v);
  for (const opencl::Argument& a : numbers(l.attributes())) arguments.push_back(a);
  l.device().run(l.device().kernel("random.cl", l.problem().op.name, b.options),
                 opencl::range2({round_up(ceil_div(blocks, b.columns), b.group), ceil_div(samples, b.rows)}, {b.group, 1}), arguments);
}

template <Arguments (*numbers)(const Attributes&)>
std::vector<Variant> variants() {
  return {{"chunks", "a run of samples and blocks for each work-item", never_declines, rank_on_cpu, nullptr, launch<numbers, for_cpu>},
          {"items", "one work-item a block of four numbers", never_declines,
           rank_anywhere, nullptr, launch<numbers, for_gpu>}};
}

Arguments dropout_numbers(const Attributes& a) { return {static_cast<float>(threshold_of(a)), static_cast<float>(scale_of(a))}; }
Arguments uniform_numbers(const Attributes& a) {
  return {static_cast<float>(a.real("low")), static_cast<float>(a.real("high") - a.real("low"))};
}
Arguments normal_numbers(const Attributes& a) { return {static_cast<float>(a.real("mean")), static_cast<float>(a.real("deviation"))}; }

// ---- records

Specs dropout_infer(const Specs& in, const Attributes& a) {
  check_float32("dropout", "x", in[0]);
  check_state("dropout", in[1]);
  const double rate = a.real("rate");
  if (!(rate >= 0 && rate <= 1)) throw ShapeError(fmt::format("dropout: rate {} is out of range; accepted: 0..1", rate));
  return {in[0]};
}

const Fill kState = integers(0, 1000);
constexpr std::int64_t kStream = 0x8badf00d;
const AttributeDef kShapeAttribute{"shape", Type::shape, "of the result"};
const AttributeDef kStreamAttribute{"stream", Type::integer, "32 bits that name the draw within its step"};

/// Samples of a tensor made from the state alone, with two real attributes.
std::vector<Sample> made_samples(const char* first, const char* second, double a, double b) {
  std::vector<Sample> out;
  for (const Shape& shape : {Shape{3, 5}, {65}, {2, 33, 7}, {}, {1, 4100}, {17, 16}, {0, 3}, {3, 0}})
    out.push_back({{i64({4})}, {{"shape", shape}, {first, a}, {second, b}, {"stream", kStream}}, {kState}});
  return out;
}

}  // namespace

const OpDef& dropout_def() {
  static const OpDef def{
      .name = "dropout",
      .doc = "Zeroes a random share of x and scales the rest by 1 / (1 - rate).",
      .inputs = {"x", "state"},
      .attributes = {{"rate", Type::real, "share that is zeroed, 0..1"}, kStreamAttribute},
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
      .samples = [] {
        std::vector<Sample> out;
        double rate = 0;
        for (const Shape& shape : {Shape{3, 5}, {65}, {2, 33, 7}, {}, {1, 4100}, {17, 16}, {0, 3}, {3, 0}})
          out.push_back({{{shape, DType::float32}, i64({4})}, {{"rate", rate += 0.125}, {"stream", kStream}}, {Fill{}, kState}});
        return out;
      },
      .rejected = [] {
        const Attributes half{{"rate", 0.5}, {"stream", std::int64_t{1}}};
        return std::vector<Rejected>{
            {{f32({2}), i64({4})}, {{"rate", 1.5}, {"stream", std::int64_t{1}}}, "dropout: rate 1.5 is out of range; accepted: 0..1"},
            {{i32({2}), i64({4})}, half, "dropout: x is int32 [2]; accepted: float32"},
            {{f32({2}), i64({2})}, half, "dropout: state is int64 [2]; accepted: int64 [4]"}};
      }};
  return def;
}

const OpDef& random_uniform_def() {
  static const OpDef def{
      .name = "random_uniform",
      .doc = "Uniform numbers from low (included) to high, of 24 random bits.",
      .inputs = {"state"},
      .attributes = {kShapeAttribute, {"low", Type::real, "lower bound"}, {"high", Type::real, "upper bound"}, kStreamAttribute},
      .infer = [](const Specs& in, const Attributes& a) -> Specs {
        check_state("random_uniform", in[0]);
        return {{a.shape("shape"), DType::float32}};
      },
      .cost = per_element<15>,
      .reference = uniform_reference,
      .draws = 0,
      .variants = variants<uniform_numbers>(),
      .samples = [] { return made_samples("low", "high", -1, 3); }};
  return def;
}

const OpDef& random_normal_def() {
  static const OpDef def{
      .name = "random_normal",
      .doc = "Normally distributed numbers.",
      .inputs = {"state"},
      .attributes = {kShapeAttribute, {"mean", Type::real, "of the distribution"}, {"deviation", Type::real, "its standard deviation"}, kStreamAttribute},
      .infer = [](const Specs& in, const Attributes& a) -> Specs {
        check_state("random_normal", in[0]);
        return {{a.shape("shape"), DType::float32}};
      },
      .cost = per_element<30>,
      .reference = normal_reference,
      .draws = 0,
      .variants = variants<normal_numbers>(),
      .samples = [] { return made_samples("mean", "deviation", 0.5, 2); }};
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
      .variants = {{"item", "one work-item", never_declines, nullptr, nullptr,
                    [](Launch& l) { l.run("random.cl", "fold_in", opencl::range1(1, 1), {l.in(0), l.in(1), l.out(0)}, "-DLANES=1"); }}},
      .samples = [] { return std::vector<Sample>{{{i64({4}), i64({})}, {}, {kState, integers(0, 9)}}}; },
      .rejected = [] {
        return std::vector<Rejected>{{{i64({4}), i32({})}, {}, "fold_in: count is int32 []; accepted: int64 []"},
                                     {{i64({3}), i64({})}, {}, "fold_in: state is int64 [3]; accepted: int64 [4]"}};
      }};
  return def;
}

Value dropout(Value x, double rate) {
  if (rate == 0) return x;
  Session& session = x.session();
  const std::int64_t stream = session.random().next_stream(*session.scope());
  return apply(session, dropout_def(), list(std::move(x), session.random().state()), {{"rate", rate}, {"stream", stream}})[0];
}

Value random_uniform(Session& session, const Shape& shape, double low, double high) {
  return apply(session, random_uniform_def(), list(session.random().state()),
               {{"shape", shape}, {"low", low}, {"high", high}, {"stream", session.random().next_stream(*session.scope())}})[0];
}

Value random_normal(Session& session, const Shape& shape, double mean, double deviation) {
  return apply(session, random_normal_def(), list(session.random().state()),
               {{"shape", shape}, {"mean", mean}, {"deviation", deviation}, {"stream", session.random().next_stream(*session.scope())}})[0];
}

Value fold_in(Value state, Value count) { return apply(fold_in_def(), list(std::move(state), std::move(count)))[0]; }

}  // namespace gemel
