// Products with what follows them: every variant against the reference and against the operators one by one, around the
// edges of tiles; and where the pass joins them, where not.
#include "engine/ops/epilogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "engine/base/numbers.h"
#include "engine/device/device_memory.h"
#include "engine/device/dispatch.h"
#include "engine/gradients/autograd.h"
#include "engine/graph/run/executor.h"
#include "engine/ops/ops.h"
#include "engine/passes/passes.h"
#include "tests/support/device/test_device.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

using List = std::vector<double>;

List drawn(std::int64_t elements, unsigned seed) {
  std::mt19937 random(seed);
  List out(at(elements));
  for (double& v : out) v = static_cast<float>(std::uniform_real_distribution<double>(-1, 1)(random));
  return out;
}

/// What follows a product y [..., K]: of y, a bias [K], a residual like y and a scale [1].
struct Following {
  const char* name;
  std::function<Value(const Values&)> apply;
  bool exact = false;  // nothing in it can contract: not a bit differs from the operators one by one
};
const Following kBias{"bias", [](const Values& v) { return v[0] + v[1]; }, true};
const Following kResidual{"residual", [](const Values& v) { return v[2] + v[0]; }, true};
const Following kBoth{"both", [](const Values& v) { return relu(v[0] + v[1] + v[2]); }, true};

std::vector<Following> activations() {
  return {kBias,
          kResidual,
          {"relu", [](const Values& v) { return relu(v[0] + v[1]); }, true},
          {"relu6", [](const Values& v) { return relu6(v[0] * v[3]); }, true},
          {"clamp", [](const Values& v) { return clamp(v[0], -0.25, 0.5); }, true},
          {"relu_gradient", [](const Values& v) { return relu_gradient(v[0], v[2]); }, true},
          {"silu", [](const Values& v) { return silu(v[0] + v[1]); }},
          {"gelu", [](const Values& v) { return gelu(v[0] + v[1]); }},
          {"erf", [](const Values& v) { return erf(v[0] + v[1]); }},
          {"hard_swish", [](const Values& v) { return hard_swish(v[0] + v[1]); }},
          {"sigmoid", [](const Values& v) { return sigmoid(v[0]) * v[2]; }},
          {"tanh", [](const Values& v) { return tanh(v[0] + v[1]) + v[2]; }},
          {"gelu_tanh", [](const Values& v) { return gelu_tanh(v[0] + v[1]); }}};
}

struct Product {
  const OpDef* op;
  Specs inputs;
  Attributes attributes;
};

Product matrices(std::int64_t m, std::int64_t k, std::int64_t n, bool ta = false, bool tb = false) {
  return {&matmul_def(), {ta ? f32({k, m}) : f32({m, k}), tb ? f32({n, k}) : f32({k, n})}, {{"transpose_a", ta}, {"transpose_b", tb}}};
}

Attributes window(Axes stride, Axes padding, std::int64_t groups = 1) {
  return {{"stride", stride}, {"padding", padding}, {"dilation", Axes{1, 1}}, {"groups", groups}};
}

Product convolved(const Shape& x, std::int64_t size, std::int64_t filters, std::int64_t stride = 1) {
  return {&conv2d_def(), {{x}, f32({size, size, x[3], filters})}, window({stride, stride}, {size / 2, size / 2})};
}
Product depthwise(const Shape& x) { return {&conv2d_def(), {{x}, f32({3, 3, 1, x[3]})}, window({1, 1}, {1, 1}, x[3])}; }

/// The gradient of a convolution for its images: what it makes is like x.
Product transposed(const Product& p) {
  Product out{&conv2d_input_gradient_def(), {p.op->infer(p.inputs, p.attributes)[0], p.inputs[1]}, p.attributes};
  out.attributes.set("shape", p.inputs[0].shape);
  return out;
}

/// The product's inputs, then a bias, a residual and a scale.
Specs specs_for(const Product& p) {
  const Spec y = p.op->infer(p.inputs, p.attributes)[0];
  Specs out = p.inputs;
  out.insert(out.end(), {f32({y.shape.back()}), y, f32({1})});
  return out;
}

Values inputs_for(Session& session, const Specs& specs) {
  Values out;
  for (std::size_t i = 0; i < specs.size(); ++i)
    out.push_back(session.tensor(specs[i], std::span<const double>(drawn(specs[i].elements(), static_cast<unsigned>(i + 1)))));
  return out;
}

Values followed(const Product& p, const Following& f, const Values& in) {
  const Value y = apply(in[0].session(), *p.op, {in[0], in[1]}, p.attributes)[0];
  return {f.apply({y, in[2], in[3], in[4]})};
}

/// The fused record with its attributes and inputs, whatever the pass would decide.
struct Fused {
  std::shared_ptr<const OpDef> op;
  Attributes attributes;
  Values inputs;
};

Fused fused(Session& session, const Product& p, const Following& f, const Values& in) {
  const Spec y = p.op->infer(p.inputs, p.attributes)[0];
  const Program chain =
      optimise(session, capture(session, {y, in[2].spec(), in[3].spec(), in[4].spec()}, [&](const Values& v) -> Values { return {f.apply(v)}; }),
               {"elementwise-fusion"});
  EXPECT_EQ(chain.code.size(), 1u) << f.name;
  const auto& step = chain.code[0];
  Fused out{nullptr, p.attributes, {in[0], in[1]}};
  Specs specs;
  std::vector<Reach> reach;
  for (const auto& use : step.inputs) {
    std::size_t k = 0;
    while (chain.inputs[k].slot != use.slot) ++k;
    specs.push_back(use.spec);
    reach.push_back(k == 0 ? Reach::product : *reach_of(use.spec.shape, y.shape));
    if (k > 0) out.inputs.push_back(in[k + 1]);
  }
  out.op = epilogue_record(*p.op, *step.op, specs, reach);
  for (const std::string& s : step.op->elementwise->scalars) out.attributes.set(s, step.attributes.real(s));
  return out;
}

List run_variant(const Variant& variant, const Fused& call, const Product& p, const OpDef& op) {
  Session& session = test_session();
  const Specs out_specs = p.op->infer(p.inputs, p.attributes);
  const std::size_t count = &op == p.op ? 2 : call.inputs.size();
  Specs in_specs;
  std::vector<opencl::Region> in;
  for (std::size_t i = 0; i < count; ++i) {
    in_specs.push_back(call.inputs[i].spec());
    in.push_back(region_of(call.inputs[i]));
  }
  const Value out = session.tensor(out_specs[0], std::vector<std::byte>(at(out_specs[0].bytes()), std::byte{0xFF}));
  const std::array regions{region_of(out)};
  launch(session, variant, {op, call.attributes, in_specs, out_specs}, in, regions);
  return read(out);
}

enum class Tried { every_variant, chosen_variant };

/// Each variant that takes the fused problem, or the one that dispatch chooses, against the reference and against the same variant followed by
/// the operators.
void expect_right(const Product& p, const Following& f, Tried tried = Tried::every_variant) {
  Session& session = test_session();
  const auto reference = Session::reference();
  const Specs specs = specs_for(p);
  const List expected = read(followed(p, f, inputs_for(*reference, specs))[0]);
  const Values in = inputs_for(session, specs);
  const Fused call = fused(session, p, f, in);
  Specs fused_specs;
  for (const Value& v : call.inputs) fused_specs.push_back(v.spec());
  const Specs y = p.op->infer(p.inputs, p.attributes);
  int ran = 0;
  for (std::size_t v = 0; v < call.op->variants.size(); ++v) {
    const Variant& variant = call.op->variants[v];
    const Problem problem{*call.op, call.attributes, fused_specs, y};
    if (declines(variant, problem, test_device().profile())) continue;
    if (tried == Tried::chosen_variant && &variant != &choose(problem, test_device().profile())) continue;
    // On an emulator half a minute in all; what they store is checked among the forms of GEMM.
    if (tried == Tried::every_variant && !does_long_work() && std::string_view(variant.name).starts_with("group_tile")) continue;
    ++ran;
    const List got = run_variant(variant, call, p, *call.op);
    // Sums of up to 600 products, each rounded to 6e-8, then functions of 4 units in the last place.
    EXPECT_LE(relative_error(got, expected), 1e-5) << call.op->name << " " << to_string(y[0]) << " " << variant.name;
    if (!does_long_work()) continue;  // on an emulator: what the kernel reads and writes
    const Value bare = session.tensor(y[0], std::span<const double>(run_variant(p.op->variants[v], call, p, *p.op)));
    const List separate = read(f.apply({bare, in[2], in[3], in[4]}));
    if (f.exact)
      EXPECT_EQ(got, separate) << call.op->name << " " << to_string(y[0]) << " " << variant.name;
    else
      EXPECT_LE(relative_error(got, separate), 1e-6) << call.op->name << " " << variant.name;  // contractions and vector forms of exp
  }
  EXPECT_GE(ran, 1);
}

/// Extents around those of tiles and vectors.
std::vector<std::int64_t> edges() {
  if (is_full_run()) return {1, 3, 31, 32, 33, 65};
  if (!does_long_work()) return {3, 33};
  return {1, 32, 65};
}

TEST(KernelsEpilogue, matrix_products_are_followed_right_around_tile_edges) {
  for (const std::int64_t n : edges()) expect_right(matrices(9, 5, n), kBoth);
  for (const std::int64_t m : {1, 7, 8, 9}) expect_right(matrices(m, 5, 33, m == 9, m == 7), kBoth);
  expect_right(matrices(25, 33, 33), kBoth);
}

TEST(KernelsEpilogue, long_sums_and_batches_are_followed_once) {
  expect_right(matrices(13, 600, 35), kBoth);             // three blocks of k
  expect_right(matrices(5, 300, 7, false, true), kBoth);  // by dot products
  Product batched = matrices(9, 4, 33);
  batched.inputs = {f32({2, 3, 9, 4}), f32({2, 3, 4, 33})};
  expect_right(batched, kBoth);
}

TEST(KernelsEpilogue, convolutions_are_followed_right_around_tile_edges) {
  const Shape images[] = {{1, 1, 1, 2}, {1, 1, 7, 2}, {8, 1, 1, 2}, {1, 3, 3, 2}, {9, 2, 1, 2}};
  for (const Shape& x : images)
    for (const std::int64_t k : edges()) expect_right(convolved(x, 3, k), kBoth);
  expect_right(convolved({2, 5, 6, 4}, 1, 33), kBoth);
  expect_right(convolved({2, 7, 6, 3}, 3, 33, 2), kBoth);
  expect_right(convolved({1, 5, 6, 8}, 3, 40), kBoth);  // tiles of 4x4 that reach over the edges
}

TEST(KernelsEpilogue, input_gradients_are_followed_right_around_tile_edges) {
  for (const std::int64_t c : edges()) expect_right(transposed(convolved({9, 2, 3, c}, 3, 4)), kBoth);
  expect_right(transposed(convolved({7, 3, 3, 5}, 1, 33)), kBoth);
  expect_right(transposed(convolved({8, 4, 5, 33}, 3, 6, 2)), kBoth);
  expect_right(transposed(convolved({1, 5, 3, 40}, 3, 8)), kBoth);
}

TEST(KernelsEpilogue, depthwise_and_grouped_convolutions_are_followed_right) {
  for (const std::int64_t c : {1, 3, 8, 16, 33}) {
    expect_right(depthwise({2, 3, 5, c}), kBoth);
    expect_right(transposed(depthwise({1, 5, 3, c})), kBoth);
  }
  const Product grouped{&conv2d_def(), {f32({2, 4, 4, 6}), f32({3, 3, 3, 8})}, window({1, 1}, {1, 1}, 2)};
  expect_right(grouped, kBoth);
  expect_right(transposed(grouped), kBoth);
}

// The code of what follows is the same in every variant: one is enough.
TEST(KernelsEpilogue, all_that_follows_is_computed_as_its_operators_say) {
  for (const Following& f : activations()) expect_right(matrices(9, 17, 33), f, Tried::chosen_variant);
  for (const char* name : {"relu6", "relu_gradient", "silu"})
    for (const Following& f : activations())
      if (f.name == std::string_view(name)) expect_right(convolved({2, 3, 5, 3}, 3, 33), f, Tried::chosen_variant);
}

TEST(Epilogue, a_product_in_several_blocks_reads_each_residual_at_its_place) {
  if (!does_long_work()) GTEST_SKIP() << "half a minute on an emulator";
  expect_right(convolved({2, 64, 64, 64}, 3, 8), kBoth);  // 18 MiB of patches: a second block begins inside the last image
}

// ---- the pass

std::vector<std::string> names_of(const Program& program) {
  std::vector<std::string> out;
  for (const auto& step : program.code) out.push_back(step.op->name);
  return out;
}
using Names = std::vector<std::string>;

using Body = std::function<Values(const Values&)>;

/// The names of what runs after all passes, once it was seen to give what no pass gives.
Names optimised(Session& session, const Specs& specs, const Body& body, const PassNames& passes = parse_passes("all")) {
  const Values in = inputs_for(session, specs);
  const auto results = [&](Program program) { return Executor(session, std::make_shared<const Program>(std::move(program))).run(in); };
  Program program = optimise(session, capture(session, specs, body), passes);
  const Names names = names_of(program);
  const Values plain = results(capture(session, specs, body)), found = results(std::move(program));
  EXPECT_EQ(plain.size(), found.size());
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_LE(relative_error(read(found[i]), read(plain[i])), 1e-6) << i;  // contractions alone
  return names;
}
Names optimised(const Specs& specs, const Body& body) { return optimised(test_session(), specs, body); }

/// CLBlast's matrix products, which GPUs use, do not.
bool products_take_epilogues() { return test_device().profile().is_cpu(); }

const Specs kLayer{f32({2, 6, 6, 4}), f32({3, 3, 4, 20}), f32({20}), f32({2, 6, 6, 20})};
Value convolution(const Values& v) { return conv2d(v[0], v[1], {.padding = {1, 1}}); }

TEST(DeviceEpilogueFusion, joins_bias_residual_and_activation_with_their_product) {
  EXPECT_EQ(optimised(kLayer, [](const Values& v) -> Values { return {relu(convolution(v) + v[2])}; }), Names{"conv2d+add+relu"});
  EXPECT_EQ(optimised(kLayer, [](const Values& v) -> Values { return {silu(v[3] + convolution(v) * 0.5)}; }), Names{"conv2d+multiply+add+silu"});
  EXPECT_EQ(optimised({f32({9, 20}), f32({20, 33}), f32({33})}, [](const Values& v) -> Values { return {gelu(matmul(v[0], v[1]) + v[2])}; }),
            products_take_epilogues() ? Names{"matmul+add+gelu"} : (Names{"matmul", "fused0_add"}));
}

TEST(DeviceEpilogueFusion, takes_one_operator_where_chains_are_not_fused) {
  PassNames passes = parse_passes("epilogue-fusion");
  EXPECT_EQ(optimised(
                test_session(), kLayer, [](const Values& v) -> Values { return {relu(convolution(v) + v[2])}; }, passes),
            (Names{"conv2d+add", "relu"}));
}

TEST(DeviceEpilogueFusion, looks_through_a_view_of_the_product) {
  EXPECT_EQ(optimised({f32({6, 5}), f32({5, 33}), f32({33})},
                      [](const Values& v) -> Values {
                        return {reshape(matmul(v[0], v[1]), Shape{2, 3, 33}) + v[2]};
                      }),
            products_take_epilogues() ? Names{"matmul+add"} : (Names{"matmul", "add"}));
  EXPECT_EQ(optimised({f32({6, 5}), f32({5, 33}), f32({11})},
                      [](const Values& v) -> Values {
                        return {reshape(matmul(v[0], v[1]), Shape{6, 3, 11}) + v[2]};
                      }),
            (Names{"matmul", "add"}))
      << "its columns are others";
}

TEST(DeviceEpilogueFusion, leaves_a_product_that_something_else_uses) {
  EXPECT_EQ(optimised(kLayer,
                      [](const Values& v) -> Values {
                        const Value y = convolution(v);
                        return {relu(y), sum(y)};
                      })
                .front(),
            "conv2d")
      << "two users";
  EXPECT_EQ(optimised(kLayer,
                      [](const Values& v) -> Values {
                        const Value y = convolution(v);
                        return {y, relu(y)};
                      }),
            (Names{"conv2d", "relu"}))
      << "it is fetched";
}

TEST(DeviceEpilogueFusion, leaves_what_is_broadcast_along_rows) {
  EXPECT_EQ(optimised({f32({9, 20}), f32({20, 33}), f32({9, 1})}, [](const Values& v) -> Values { return {matmul(v[0], v[1]) + v[2]}; }),
            (Names{"matmul", "add"}));
}

TEST(DeviceEpilogueFusion, joins_a_sum_of_two_products_with_the_later_one) {
  EXPECT_EQ(optimised(kLayer, [](const Values& v) -> Values { return {convolution(v) + conv2d(v[0] * 2.0, v[1], {.padding = {1, 1}})}; }).back(), "conv2d+add");
}

TEST(DeviceEpilogueFusion, moves_no_product_past_a_write_of_what_it_reads) {
  Session session(shared_test_device());
  const Value w = session.tensor(f32({5, 33}), std::span<const double>(drawn(5 * 33, 1)));
  const auto program = optimise(session,
                                capture(session, {f32({9, 5})},
                                        [&](const Values& v) -> Values {
                                          const Value y = matmul(v[0], w);
                                          assign(w, w * 2.0);
                                          return {relu(y)};
                                        }),
                                parse_passes("all"));
  EXPECT_EQ(program.code.front().op->name, "matmul");
  EXPECT_EQ(program.code.back().op->name, "relu");
}

TEST(DeviceEpilogueFusion, joins_gradients_of_activations_in_a_training_step) {
  const Specs specs{f32({9, 4, 4, 16}), f32({3, 3, 16, 20}), f32({20}), f32({3, 3, 20, 24})};
  const auto names = optimised(specs, [](const Values& v) -> Values {
    const Values w{leaf(v[1]), leaf(v[2]), leaf(v[3])};
    const Value hidden = relu(conv2d(v[0], w[0], {.padding = {1, 1}}) + w[1]);
    return gradient({sum(square(conv2d(hidden, w[2], {.padding = {1, 1}})))}, w);
  });
  const auto has = [&](const std::string& name) { return std::count(names.begin(), names.end(), name); };
  EXPECT_EQ(has("conv2d+add+relu"), 1);
  if (test_device().profile().is_cpu() && !test_device().profile().is_emulator) {
    EXPECT_EQ(has("conv2d_input_gradient+relu_gradient"), 1);
  }
}

TEST(DeviceEpilogueFusion, declines_where_the_chosen_product_takes_none) {
  opencl::DeviceOptions options;
  options.gemm = opencl::GemmChoice::clblast;
  const auto device = opencl::Device::open(options);
  Session session(device);
  const Specs specs{f32({9, 20}), f32({20, 33}), f32({33})};
  EXPECT_EQ(names_of(optimise(session, capture(session, specs, [](const Values& v) -> Values { return {matmul(v[0], v[1]) + v[2]}; }), parse_passes("all"))),
            (Names{"matmul", "add"}));
}

TEST(DeviceEpilogueFusion, follows_products_in_several_chunks_of_their_outputs) {
  if (test_device().profile().is_emulator) GTEST_SKIP() << "a CPU pretends";
  for (const std::int64_t channels : {20, 7}) {  // 300 tiles, 128 of them at a time, which begin where rows are not aligned
    Session session(pretended_device("gpu:units=1,gflops=100000,gbs=1,cache=1800000", {.ablation = {.variants = {{"conv2d", "group_winograd"}}}}));
    const Specs specs{f32({3, 40, 37, channels}), f32({3, 3, channels, channels}), f32({channels}), f32({3, 40, 37, channels})};
    EXPECT_EQ(optimised(session, specs, [](const Values& v) -> Values { return {relu(convolution(v) + v[2] + v[3])}; }), Names{"conv2d+add+add+relu"});
  }
}

TEST(EpilogueFusion, leaves_programs_of_the_reference_alone) {
  const auto session = Session::reference();
  EXPECT_EQ(optimised(*session, kLayer, [](const Values& v) -> Values { return {relu(convolution(v))}; }), (Names{"conv2d", "relu"}));
}

TEST(DeviceEpilogueFusion, counts_the_products_work_and_its_own) {
  Session& session = test_session();
  const auto program = optimise(session, capture(session, kLayer, [](const Values& v) -> Values { return {convolution(v) + v[3]}; }), parse_passes("all"));
  const auto& step = program.code.at(0);
  Specs in;
  for (const auto& u : step.inputs) in.push_back(u.spec);
  const Specs out{step.outputs[0].spec};
  const Cost fused = step.op->cost({*step.op, step.attributes, in, out});
  const Cost product = conv2d_def().cost({conv2d_def(), step.attributes, std::span(in).first(2), out});
  EXPECT_EQ(fused.flops, product.flops + out[0].elements());
  EXPECT_EQ(fused.bytes, product.bytes + in[2].bytes()) << "the sum is written once, and the product never read";
}

}  // namespace
}  // namespace gemel::testing
