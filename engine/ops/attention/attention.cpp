// Attention over several heads, and its gradients, without a matrix of scores. Legend: engine/ops/attention/attention.h.
#include "engine/ops/attention/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/core/session.h"
#include "engine/ops/attention/score_matrices.h"
#include "engine/ops/ops.h"

namespace gemel::inline ops {

AttentionSizes attention_sizes(const Shape& query, const Shape& value) { return {query[0], query[1], value[1], query[2], query[3], value[3]}; }

std::int64_t AttentionSizes::seen_by(std::int64_t i, bool causal) const { return causal ? std::clamp<std::int64_t>(i + keys - queries + 1, 0, keys) : keys; }

std::int64_t AttentionSizes::pairs(bool causal) const {
  // Those that see some, from `first` on, see one more each.
  const std::int64_t first = std::max<std::int64_t>(queries - keys, 0), seeing = queries - first;
  const std::int64_t seen = causal && seeing ? seeing * (seen_by(first, true) + keys) / 2 : queries * keys;
  return samples * heads * seen;
}

namespace {

constexpr const char* kForward = "attention";
constexpr const char* kBackward = "attention_backward";
constexpr const char* kDropout = "attention_dropout";

void check_bias(const char* op, const Spec& bias, const Shape& scores) {
  check_float32(op, "bias", bias);
  check_rank(op, "bias", bias, 4);
  for (int k = 0; k < 4; ++k)
    if (bias.shape[k] != 1 && bias.shape[k] != scores[k])
      throw ShapeError(fmt::format("{}: bias is {}; accepted: {}, any extent of which may be 1", op, to_string(bias.shape), to_string(scores)));
}

/// Of weights or of what has them: N samples.
void check_draws(const char* op, const Spec& state, std::int64_t samples) {
  check_state(op, state);
  if (keyed_by(state) == Keyed::listed && state.shape[0] - kStateNumbers != samples)
    throw ShapeError(fmt::format("{}: there are {} samples, the random state lists {}; accepted: as many", op, samples, state.shape[0] - kStateNumbers));
}

}  // namespace

void check_attention(const char* op, const Specs& in, AttentionInputsAt where, const Attributes& a) {
  const Spec* const given = &in[at(where.query)];  // query, key, value, bias
  const char* const names[] = {"query", "key", "value"};
  for (std::size_t i : {0u, 1u, 2u}) {
    check_floating(op, names[i], given[i]);
    check_same_dtype(op, given[0], given[i]);
    check_rank(op, names[i], given[i], 4);
  }
  const Shape& query = given[0].shape;
  const AttentionSizes s = attention_sizes(query, given[2].shape);
  if (s.head == 0 || s.value == 0)
    throw ShapeError(fmt::format("{}: query is {} and value {}; accepted: at least one number in each head", op, to_string(query), to_string(given[2].shape)));
  check_shape(op, "value", given[2], Shape{s.samples, s.keys, s.heads, s.value});
  check_shape(op, "key", given[1], Shape{s.samples, s.keys, s.heads, s.head});
  check_bias(op, given[3], s.scores());
  check_rate(op, a.real("rate"));
  const std::size_t states = in.size() - at(where.state);
  if (states != (a.real("rate") > 0 ? 1 : 0))
    throw ShapeError(fmt::format("{}: {} random states with rate {}; accepted: one where the rate is above 0, else none", op, states, a.real("rate")));
  if (states > 0) check_draws(op, in.back(), s.samples);
}

std::vector<AttributeDef> attention_attributes() {
  return {{"scale", Type::real, "of the products of queries and keys"},
          {"causal", Type::boolean, "query i sees keys 0..i + S - T alone"},
          {"rate", Type::real, "share of the weights that is zeroed, 0..1; 0: there is no random state"},
          kStreamAttribute};
}

namespace {

Specs infer(const Specs& in, const Attributes& a) {
  check_attention(kForward, in, kForwardInputs, a);
  const AttentionSizes s = attention_sizes(in[0].shape, in[2].shape);
  const Spec statistic{s.statistic(), DType::float32};
  return {{Shape{s.samples, s.queries, s.heads, s.value}, in[0].dtype}, statistic, statistic};
}

Specs backward_infer(const Specs& in, const Attributes& a) {
  check_attention(kBackward, in, kBackwardInputs, a);
  const AttentionSizes s = attention_sizes(in[1].shape, in[3].shape);
  const Spec y{Shape{s.samples, s.queries, s.heads, s.value}, in[1].dtype};
  for (int i : {0, 5}) {
    check_same_dtype(kBackward, in[1], in[at(i)]);
    check_shape(kBackward, i ? "y" : "dy", in[at(i)], y.shape);
  }
  for (int i : {6, 7}) {
    check_float32(kBackward, i == 6 ? "top" : "log_sum", in[at(i)]);
    check_shape(kBackward, i == 6 ? "top" : "log_sum", in[at(i)], s.statistic());
  }
  return {in[1], in[2], in[3]};
}

Specs dropout_infer(const Specs& in, const Attributes& a) {
  check_float32(kDropout, "weights", in[0]);
  check_rank(kDropout, "weights", in[0], 4);
  check_draws(kDropout, in[1], in[0].shape[0]);
  check_rate(kDropout, a.real("rate"));
  return {in[0]};
}

/// `products` of E and of V numbers for each pair of query and key, and what an exponential is worth.
template <AttentionInputsAt in, int of_head, int of_value>
Cost cost(const Problem& p) {
  const AttentionSizes s = attention_sizes(p, in);
  Cost cost{s.pairs(p.attributes.boolean("causal")) * (2 * (of_head * s.head + of_value * s.value) + 5), 0};
  for (const Spec& spec : p.inputs) cost.bytes += spec.bytes();
  for (const Spec& spec : p.outputs) cost.bytes += spec.bytes();
  return cost;
}

// ---- samples

constexpr std::int64_t kStream = 0x5eed;
const Fill kState = integers(0, 1000);

/// A sample's extents, its bias's, and what it does.
struct Form {
  AttentionSizes s;
  Shape bias;
  bool causal = false;
  double rate = 0;
  std::int64_t listed = 0;  // places in the random state
};
/// Lengths and widths about the edges of vectors, tiles and blocks; every form of bias; more keys than queries and fewer.
/// No query's two largest scores are so near each other that differences would see the kink of `top`.
const std::vector<Form>& forms() {
  static const std::vector<Form> all{{{2, 3, 5, 2, 8, 8}, {1, 1, 1, 1}},
                                     {{1, 17, 33, 2, 16, 16}, {1, 1, 1, 33}},
                                     {{2, 15, 16, 1, 64, 64}, {2, 1, 1, 16}, true},
                                     {{1, 16, 65, 2, 8, 24}, {1, 2, 16, 65}, true},
                                     {{2, 9, 4, 2, 7, 5}, {2, 2, 9, 4}, true},
                                     {{1, 1, 65, 2, 16, 33}, {1, 1, 1, 65}},
                                     {{2, 33, 65, 2, 16, 8}, {1, 2, 1, 1}, false, 0.25},
                                     {{3, 65, 70, 1, 8, 8}, {3, 1, 65, 1}, true, 0.5, 3},
                                     {{1, 5, 3, 2, 70, 3}, {1, 1, 5, 3}, false, 1},
                                     {{1, 1, 1, 1, 1, 1}, {1, 1, 1, 1}},
                                     {{0, 2, 2, 1, 4, 4}, {1, 1, 1, 2}},
                                     {{2, 3, 0, 1, 4, 4}, {1, 1, 3, 1}},
                                     {{2, 0, 3, 1, 4, 4}, {1, 1, 1, 3}},
                                     {{1, 2, 600, 1, 3, 4}, {1, 1, 1, 600}},
                                     {{1, 3, 66, 1, 2, 2}, {1, 1, 3, 66}, true, 0.3},
                                     {{1, 33, 66, 1, 128, 100}, {1, 1, 1, 66}, true, 0.2}};
  return all;
}

Sample sample_of(const Form& f, const Spec* dy) {
  const auto& [n, t, s, h, e, v] = f.s;
  const Spec statistic{f.s.statistic(), DType::float32};
  Sample out{{f32({n, t, h, e}), f32({n, s, h, e}), f32({n, s, h, v}), {f.bias, DType::float32}},
             {{"scale", 1 / std::sqrt(static_cast<double>(e))}, {"causal", f.causal}, {"rate", f.rate}, {"stream", f.rate > 0 ? kStream : 0}},
             std::vector<Fill>(4)};
  if (dy) {
    out.inputs.insert(out.inputs.begin(), *dy);
    out.inputs.insert(out.inputs.end(), {*dy, statistic, statistic});
    out.fills.resize(6);
    out.fills.insert(out.fills.end(), {uniform(1, 3), uniform(0.5, 2)});  // weights about as large as those of a few keys
  }
  if (f.rate > 0) {
    out.inputs.push_back(i64({kStateNumbers + f.listed}));
    out.fills.push_back(kState);
  }
  return out;
}

std::vector<Sample> samples() {
  std::vector<Sample> out;
  for (const Form& f : forms()) out.push_back(sample_of(f, nullptr));
  return also_in_two_bytes(std::move(out), {1, 3, 6}, inputs(0, 1, 2));
}

std::vector<Sample> backward_samples() {
  std::vector<Sample> out;
  for (const Form& f : forms()) {
    const Spec dy{Shape{f.s.samples, f.s.queries, f.s.heads, f.s.value}, DType::float32};
    out.push_back(sample_of(f, &dy));
  }
  return also_in_two_bytes(std::move(out), {1, 3, 6}, inputs(0, 1, 2, 3, 5));
}

std::vector<Rejected> rejected() {
  const Attributes plain{{"scale", 1.0}, {"causal", false}, {"rate", 0.0}, {"stream", std::int64_t{0}}};
  Attributes drops = plain;
  drops.set("rate", 0.5);
  const Spec q = f32({2, 3, 2, 4}), k = f32({2, 5, 2, 4}), none = f32({1, 1, 1, 1});
  return {{{f32({2, 3, 4}), k, k, none}, plain, "attention: query is [2, 3, 4], of rank 3; accepted: rank 4"},
          {{q, f32({2, 5, 2, 3}), k, none}, plain, "attention: key is [2, 5, 2, 3]; accepted: [2, 5, 2, 4]"},
          {{q, k, f32({2, 5, 1, 4}), none}, plain, "attention: value is [2, 5, 1, 4]; accepted: [2, 5, 2, 4]"},
          {{q, k, {k.shape, DType::bfloat16}, none},
           plain,
           "attention: float32 [2, 3, 2, 4] and bfloat16 [2, 5, 2, 4] differ in element type; accepted: equal types, cast one"},
          {{q, k, k, f32({2, 1, 5, 3})}, plain, "attention: bias is [2, 1, 5, 3]; accepted: [2, 2, 3, 5], any extent of which may be 1"},
          {{f32({2, 3, 2, 0}), f32({2, 5, 2, 0}), k, none},
           plain,
           "attention: query is [2, 3, 2, 0] and value [2, 5, 2, 4]; accepted: at least one number in each head"},
          {{q, k, k, none}, drops, "attention: 0 random states with rate 0.5; accepted: one where the rate is above 0, else none"},
          {{q, k, k, none, i64({4})}, plain, "attention: 1 random states with rate 0; accepted: one where the rate is above 0, else none"},
          {{q, k, k, none, i64({7})}, drops, "attention: there are 2 samples, the random state lists 3; accepted: as many"}};
}

}  // namespace

const OpDef& attention_def() {
  static const OpDef def{
      .name = kForward,
      .doc = "Sums values by the softmax of query times key plus bias, head by head, in memory linear in the lengths.",
      .inputs = {"query", "key", "value", "bias", "state..."},
      .outputs = {"y", "top", "log_sum"},
      .attributes = attention_attributes(),
      .infer = infer,
      .cost = cost<kForwardInputs, 1, 1>,
      .reference = attention_reference,
      .gradient = attention_gradient,
      .gradient_reads = {inputs(0, 1, 2, 3, 4) | outputs(0, 1, 2)},
      .composed = composed_attention,
      .draws = kForwardInputs.state,
      .variants = attention_variants(),
      .samples = samples,
      .rejected = rejected,
  };
  return def;
}

const OpDef& attention_backward_def() {
  static const OpDef def{
      .name = kBackward,
      .doc = "The gradients of attention for query, key and value, from its result and the two numbers that its weights are computed again from.",
      .inputs = {"dy", "query", "key", "value", "bias", "y", "top", "log_sum", "state..."},
      .outputs = {"dquery", "dkey", "dvalue"},
      .attributes = attention_attributes(),
      .infer = backward_infer,
      .cost = cost<kBackwardInputs, 3, 2>,
      .reference = attention_backward_reference,
      .gradient = attention_backward_gradient,
      .gradient_reads = {inputs(0, 1, 2, 3, 4, 5, 6, 7, 8)},
      .composed = composed_attention_backward,
      .draws = kBackwardInputs.state,
      .variants = attention_backward_variants(),
      .samples = backward_samples,
      .rejected =
          [] {
            const Attributes plain{{"scale", 1.0}, {"causal", false}, {"rate", 0.0}, {"stream", std::int64_t{0}}};
            const Spec q = f32({2, 3, 2, 4}), k = f32({2, 5, 2, 4}), none = f32({1, 1, 1, 1}), sum = f32({2, 3, 2});
            return std::vector<Rejected>{{{k, q, k, k, none, q, sum, sum}, plain, "attention_backward: dy is [2, 5, 2, 4]; accepted: [2, 3, 2, 4]"},
                                         {{q, q, k, k, none, q, sum, f32({2, 2, 3})}, plain, "attention_backward: log_sum is [2, 2, 3]; accepted: [2, 3, 2]"}};
          },
  };
  return def;
}

const OpDef& attention_dropout_def() {
  static const OpDef def{
      .name = kDropout,
      .doc = "Zeroes a random share of attention's weights, those that attention itself does, and scales the rest by 1 / (1 - rate).",
      .inputs = {"weights", "state"},
      .attributes = {{"rate", Type::real, "share that is zeroed, 0..1"}, kStreamAttribute},
      .infer = dropout_infer,
      .cost = per_element<15>,
      .reference = attention_dropout_reference,
      .gradient = [](const Backward& b) -> Values {
        return {apply(attention_dropout_def(), list(b.gradient(0), b.input(1)), b.attributes())[0], Value()};
      },
      .gradient_reads = {inputs(1), nothing},
      .draws = 1,
      .may_reuse = {{0, 0}},
      .variants = attention_dropout_variants(),
      .samples =
          [] {
            std::vector<Sample> out;
            double rate = 0;
            for (const Shape& shape : {Shape{2, 3, 5, 7}, {1, 1, 3, 64}, {3, 2, 2, 65}, {1, 2, 1, 200}, {0, 2, 3, 4}, {2, 1, 3, 0}}) {
              rate += 0.15;
              out.push_back(
                  {{{shape, DType::float32}, i64({kStateNumbers + (out.size() % 2 ? shape[0] : 0)})}, {{"rate", rate}, {"stream", kStream}}, {Fill{}, kState}});
            }
            return out;
          },
      .rejected =
          [] {
            const Attributes a{{"rate", 0.5}, {"stream", kStream}};
            return std::vector<Rejected>{
                {{f32({2, 3, 4}), i64({4})}, a, "attention_dropout: weights is [2, 3, 4], of rank 3; accepted: rank 4"},
                {{f32({2, 1, 3, 4}), i64({7})}, a, "attention_dropout: there are 2 samples, the random state lists 3; accepted: as many"}};
          },
  };
  return def;
}

Value attention(Value query, Value key, Value value, Attention how) {
  Session& session = query.session();
  if (query.shape().rank() == 0) throw ShapeError("attention: query is a single number; accepted: [N, T, H, E]");
  const double scale = how.scale ? *how.scale : 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(query.shape().back(), 1)));
  Attributes attributes{{"scale", scale}, {"causal", how.causal == Causal::yes}, {"rate", how.dropout}, {"stream", std::int64_t{0}}};
  Values in = list(std::move(query), std::move(key), std::move(value), how.bias ? std::move(how.bias) : full(session, f32({1, 1, 1, 1}), 0));
  if (how.dropout > 0) {
    attributes.set("stream", session.random().next_stream(*session.scope()));
    in.push_back(session.random().state());
  }
  return apply(session, attention_def(), std::move(in), std::move(attributes))[0];
}

}  // namespace gemel::inline ops
