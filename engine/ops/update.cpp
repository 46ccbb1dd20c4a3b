// Optimizers' updates, in place, by PyTorch's formulas (torch.optim, 1.13); written out in opencl/kernels/update.cl.
#include <cmath>
#include <functional>

#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"

namespace gemel {
namespace {

constexpr std::int64_t kChunkElements = 8192;  // of one work-item on a CPU
constexpr std::int64_t kGroup = 256;           // work-items of a group, one an element

/// Inputs: the parameter, the slots, the gradient (all of one shape), and hyper, a vector of `hyper` numbers.
Specs infer(const char* op, const Specs& in, std::initializer_list<const char*> slots, std::int64_t hyper) {
  check_float32(op, "parameter", in[0]);
  std::size_t i = 1;
  const auto check_like_parameter = [&](const char* name) {
    check_float32(op, name, in[i]);
    check_shape(op, name, in[i++], in[0].shape);
  };
  for (const char* slot : slots) check_like_parameter(slot);
  check_like_parameter("gradient");
  check_float32(op, "hyper", in[i]);
  check_shape(op, "hyper", in[i], Shape{hyper});
  return {};
}

/// `flops` an element; reads everything, writes the parameter and the slots.
template <int flops>
Cost cost(const Problem& p) {
  Cost c{flops * p.inputs[0].elements(), 0};
  for (const Spec& s : p.inputs) c.bytes += s.bytes();
  c.bytes += static_cast<std::int64_t>(p.inputs.size() - 2) * p.inputs[0].bytes();
  return c;
}

using Arguments = std::vector<opencl::Argument>;
float real(const Attributes& a, const char* name) { return static_cast<float>(a.real(name)); }
float rest(const Attributes& a, const char* name) { return static_cast<float>(1 - a.real(name)); }

/// Kernel arguments: the inputs, their length, what a work-item does, then the operator's own numbers.
void run(Launch& l, std::int64_t chunk, std::int64_t group, const Arguments& numbers) {
  const std::int64_t n = l.in_spec(0).elements();
  Arguments arguments;
  for (std::size_t i = 0; i < l.problem().inputs.size(); ++i) arguments.emplace_back(l.in(static_cast<int>(i)));
  arguments.emplace_back(n);
  arguments.emplace_back(chunk);
  arguments.insert(arguments.end(), numbers.begin(), numbers.end());
  l.device().run(l.device().kernel("update.cl", l.problem().op.name), opencl::range1(round_up(ceil_div(n, chunk), group), group), arguments);
}

template <Arguments (*numbers)(const Attributes&)>
std::vector<Variant> variants() {
  return {{"chunks", "a run of elements for each work-item", never_declines, rank_on_cpu, nullptr,
           [](Launch& l) { run(l, kChunkElements, 1, numbers(l.attributes())); }},
          {"items", "one work-item an element", never_declines, rank_anywhere, nullptr,
           [](Launch& l) { run(l, 1, kGroup, numbers(l.attributes())); }}};
}

Arguments sgd_numbers(const Attributes& a) { return {real(a, "weight_decay")}; }
Arguments momentum_numbers(const Attributes& a) {
  return {real(a, "momentum"), real(a, "weight_decay"), std::int32_t{a.boolean("nesterov")}};
}
Arguments adam_numbers(const Attributes& a) {
  const float decay = real(a, "weight_decay");
  const bool decoupled = a.boolean("decoupled");
  return {real(a, "beta1"), rest(a, "beta1"), real(a, "beta2"), rest(a, "beta2"), real(a, "eps"), decoupled ? 0 : decay, decoupled ? decay : 0};
}
Arguments rmsprop_numbers(const Attributes& a) {
  return {real(a, "alpha"), rest(a, "alpha"), real(a, "eps"), real(a, "weight_decay")};
}
Arguments rmsprop_momentum_numbers(const Attributes& a) {
  Arguments out = rmsprop_numbers(a);
  out.emplace_back(real(a, "momentum"));
  return out;
}

/// Input `gradient` with the weights' decay joined to it, for element i.
double slope(const HostCall& c, int gradient, std::size_t i) {
  return c.real(gradient)[i] + c.attributes().real("weight_decay") * c.real(0)[i];
}

void sgd_reference(const HostCall& c) {
  const auto p = c.written<double>(0);
  for (std::size_t i = 0; i < p.size(); ++i) p[i] -= c.real(2)[0] * slope(c, 1, i);
}

void momentum_reference(const HostCall& c) {
  const auto p = c.written<double>(0), v = c.written<double>(1);
  const double mu = c.attributes().real("momentum");
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double g = slope(c, 2, i);
    v[i] = mu * v[i] + g;
    p[i] -= c.real(3)[0] * (c.attributes().boolean("nesterov") ? g + mu * v[i] : v[i]);
  }
}

void adam_reference(const HostCall& c) {
  const Attributes& a = c.attributes();
  const auto p = c.written<double>(0), m = c.written<double>(1), v = c.written<double>(2);
  const double rate = c.real(4)[0], bias1 = c.real(4)[1], bias2 = c.real(4)[2];
  const double beta1 = a.real("beta1"), beta2 = a.real("beta2");
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double g = a.boolean("decoupled") ? c.real(3)[i] : slope(c, 3, i);
    if (a.boolean("decoupled")) p[i] *= 1 - rate * a.real("weight_decay");
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    p[i] -= rate / bias1 * m[i] / (std::sqrt(v[i]) / std::sqrt(bias2) + a.real("eps"));
  }
}

/// g / (sqrt(v) + eps) after v has moved.
double rmsprop_direction(const HostCall& c, int gradient, std::size_t i) {
  const Attributes& a = c.attributes();
  const double g = slope(c, gradient, i), alpha = a.real("alpha");
  double& v = c.written<double>(1)[i];
  v = alpha * v + (1 - alpha) * g * g;
  return g / (std::sqrt(v) + a.real("eps"));
}

void rmsprop_reference(const HostCall& c) {
  const auto p = c.written<double>(0);
  for (std::size_t i = 0; i < p.size(); ++i) p[i] -= c.real(3)[0] * rmsprop_direction(c, 2, i);
}

void rmsprop_momentum_reference(const HostCall& c) {
  const auto p = c.written<double>(0), b = c.written<double>(2);
  for (std::size_t i = 0; i < p.size(); ++i) {
    b[i] = c.attributes().real("momentum") * b[i] + rmsprop_direction(c, 3, i);
    p[i] -= c.real(4)[0] * b[i];
  }
}

/// Samples with `slots` tensors between the parameter and the gradient; `fills` of all inputs.
std::vector<Sample> samples(int slots, std::int64_t hyper, const std::vector<Fill>& fills, const std::vector<Attributes>& attributes) {
  std::vector<Sample> out;
  std::size_t k = 0;
  for (const Spec& shape : {f32({3, 5}), f32({65}), f32({9000}), f32({}), f32({0, 4}), f32({1, 33})}) {
    Specs specs(at(slots + 2), shape);
    specs.push_back(f32({hyper}));
    out.push_back({specs, attributes[k++ % attributes.size()], fills});
  }
  return out;
}

const AttributeDef kDecay{"weight_decay", Type::real, "L2 penalty, joined to the gradient"};
const AttributeDef kMomentum{"momentum", Type::real, "share of the velocity that is kept"};
const AttributeDef kEps{"eps", Type::real, "added to the denominator"};
const AttributeDef kAlpha{"alpha", Type::real, "share of the mean square that is kept"};
const Fill kPositive = uniform(0.1, 2);

}  // namespace

const OpDef& sgd_update_def() {
  static const OpDef def{
      .name = "sgd_update",
      .doc = "Gradient descent, in place.",
      .inputs = {"parameter", "gradient", "hyper"},
      .outputs = {},
      .attributes = {kDecay},
      .infer = [](const Specs& in, const Attributes&) { return infer("sgd_update", in, {}, 1); },
      .cost = cost<4>,
      .reference = sgd_reference,
      .writes = {0},
      .variants = variants<sgd_numbers>(),
      .samples = [] { return samples(0, 1, {}, {{{"weight_decay", 0.0}}, {{"weight_decay", 0.1}}}); },
      .rejected = [] {
        const Attributes a{{"weight_decay", 0.0}};
        return std::vector<Rejected>{{{f32({3}), f32({4}), f32({1})}, a, "sgd_update: gradient is [4]; accepted: [3]"},
                                     {{f32({3}), f32({3}), f32({3})}, a, "sgd_update: hyper is [3]; accepted: [1]"},
                                     {{i32({3}), f32({3}), f32({1})}, a, "sgd_update: parameter is int32 [3]; accepted: float32"}};
      }};
  return def;
}

const OpDef& momentum_update_def() {
  static const OpDef def{
      .name = "momentum_update",
      .doc = "Gradient descent with momentum, in place.",
      .inputs = {"parameter", "velocity", "gradient", "hyper"},
      .outputs = {},
      .attributes = {kMomentum, kDecay, {"nesterov", Type::boolean, "look ahead along the velocity"}},
      .infer = [](const Specs& in, const Attributes&) { return infer("momentum_update", in, {"velocity"}, 1); },
      .cost = cost<8>,
      .reference = momentum_reference,
      .writes = {0, 1},
      .variants = variants<momentum_numbers>(),
      .samples = [] {
        return samples(1, 1, {}, {{{"momentum", 0.9}, {"weight_decay", 1e-2}, {"nesterov", false}},
                                  {{"momentum", 0.8}, {"weight_decay", 0.0}, {"nesterov", true}}});
      },
      .rejected = [] {
        return std::vector<Rejected>{{{f32({3}), f32({4}), f32({3}), f32({1})}, {{"momentum", 0.9}, {"weight_decay", 0.0}, {"nesterov", false}},
                                      "momentum_update: velocity is [4]; accepted: [3]"}};
      }};
  return def;
}

const OpDef& adam_update_def() {
  static const OpDef def{
      .name = "adam_update",
      .doc = "Adam, or with decoupled decay AdamW, in place. hyper is {rate, 1 - beta1^t, 1 - beta2^t}.",
      .inputs = {"parameter", "mean", "variance", "gradient", "hyper"},
      .outputs = {},
      .attributes = {{"beta1", Type::real, "share of the mean that is kept"}, {"beta2", Type::real, "share of the variance that is kept"},
                     kEps, kDecay, {"decoupled", Type::boolean, "the decay shrinks the parameter instead of joining the gradient"}},
      .infer = [](const Specs& in, const Attributes&) { return infer("adam_update", in, {"mean", "variance"}, 3); },
      .cost = cost<16>,
      .reference = adam_reference,
      .writes = {0, 1, 2},
      .variants = variants<adam_numbers>(),
      .samples = [] {
        const auto with = [](double decay, bool decoupled) {
          return Attributes{{"beta1", 0.9}, {"beta2", 0.99}, {"eps", 1e-8}, {"weight_decay", decay}, {"decoupled", decoupled}};
        };
        return samples(2, 3, {Fill{}, Fill{}, kPositive, Fill{}, kPositive}, {with(0, false), with(0.1, false), with(0.1, true)});
      },
      .rejected = [] {
        return std::vector<Rejected>{{{f32({3}), f32({3}), f32({3}), f32({3}), f32({1})},
                                      {{"beta1", 0.9}, {"beta2", 0.99}, {"eps", 1e-8}, {"weight_decay", 0.0}, {"decoupled", false}},
                                      "adam_update: hyper is [1]; accepted: [3]"}};
      }};
  return def;
}

const OpDef& rmsprop_update_def() {
  static const OpDef def{
      .name = "rmsprop_update",
      .doc = "RMSprop without momentum, in place.",
      .inputs = {"parameter", "variance", "gradient", "hyper"},
      .outputs = {},
      .attributes = {kAlpha, kEps, kDecay},
      .infer = [](const Specs& in, const Attributes&) { return infer("rmsprop_update", in, {"variance"}, 1); },
      .cost = cost<10>,
      .reference = rmsprop_reference,
      .writes = {0, 1},
      .variants = variants<rmsprop_numbers>(),
      .samples = [] {
        return samples(1, 1, {Fill{}, kPositive, Fill{}}, {{{"alpha", 0.9}, {"eps", 1e-8}, {"weight_decay", 0.1}}});
      }};
  return def;
}

const OpDef& rmsprop_momentum_update_def() {
  static const OpDef def{
      .name = "rmsprop_momentum_update",
      .doc = "RMSprop with momentum, in place.",
      .inputs = {"parameter", "variance", "velocity", "gradient", "hyper"},
      .outputs = {},
      .attributes = {kAlpha, kEps, kDecay, kMomentum},
      .infer = [](const Specs& in, const Attributes&) { return infer("rmsprop_momentum_update", in, {"variance", "velocity"}, 1); },
      .cost = cost<12>,
      .reference = rmsprop_momentum_reference,
      .writes = {0, 1, 2},
      .variants = variants<rmsprop_momentum_numbers>(),
      .samples = [] {
        return samples(2, 1, {Fill{}, kPositive, Fill{}}, {{{"alpha", 0.9}, {"eps", 1e-8}, {"weight_decay", 0.1}, {"momentum", 0.8}}});
      }};
  return def;
}

void sgd_update(const Value& parameter, Value gradient, Value hyper, double weight_decay) {
  apply(sgd_update_def(), list(parameter.detached(), std::move(gradient), std::move(hyper)), {{"weight_decay", weight_decay}});
}

void momentum_update(const Value& parameter, const Value& velocity, Value gradient, Value hyper, double momentum,
                     double weight_decay, bool nesterov) {
  apply(momentum_update_def(), list(parameter.detached(), velocity.detached(), std::move(gradient), std::move(hyper)),
        {{"momentum", momentum}, {"weight_decay", weight_decay}, {"nesterov", nesterov}});
}

void adam_update(const Value& parameter, const Value& mean, const Value& variance, Value gradient, Value hyper, const Adam& adam) {
  apply(adam_update_def(),
        list(parameter.detached(), mean.detached(), variance.detached(), std::move(gradient), std::move(hyper)),
        {{"beta1", adam.beta1}, {"beta2", adam.beta2}, {"eps", adam.eps}, {"weight_decay", adam.weight_decay}, {"decoupled", adam.decoupled}});
}

void rmsprop_update(const Value& parameter, const Value& variance, const Value& velocity, Value gradient, Value hyper,
                    double alpha, double eps, double momentum, double weight_decay) {
  Attributes attributes{{"alpha", alpha}, {"eps", eps}, {"weight_decay", weight_decay}};
  if (momentum == 0) {
    apply(rmsprop_update_def(), list(parameter.detached(), variance.detached(), std::move(gradient), std::move(hyper)), std::move(attributes));
    return;
  }
  attributes.set("momentum", momentum);
  apply(rmsprop_momentum_update_def(),
        list(parameter.detached(), variance.detached(), velocity.detached(), std::move(gradient), std::move(hyper)), std::move(attributes));
}

}  // namespace gemel
