// Optimizers' updates, in place, by PyTorch's formulas (torch.optim, 1.13), over slabs; written out in opencl/kernels/any/update.cl.
#include <cmath>

#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"
#include "engine/ops/update/slab_pages.h"

namespace gemel::inline ops {
namespace {

constexpr std::int64_t kGroup = 256;                                                    // work-items of a group, one an element
constexpr int kParameters = 0, kGradients = 1, kHyper = 2, kPages = 3, kFirstSlot = 4;  // inputs
constexpr std::int64_t kRate = 0, kDecay = 1, kBias1 = 2, kBias2 = 3;                   // numbers of a group in hyper

/// Inputs: parameters, gradients, hyper with `numbers` numbers a group, pages, then the slots.
Specs infer(const char* op, const Specs& in, std::initializer_list<const char*> slots, std::int64_t numbers) {
  check_pages(op, in[kParameters], in[kPages]);
  const auto check_like_parameters = [&](const char* name, const Spec& spec) {
    check_float32(op, name, spec);
    check_shape(op, name, spec, in[kParameters].shape);
  };
  check_like_parameters("gradients", in[kGradients]);
  check_float32(op, "hyper", in[kHyper]);
  check_rank(op, "hyper", in[kHyper], 2);
  check_shape(op, "hyper", in[kHyper], Shape{in[kHyper].shape[0], numbers});
  std::size_t i = kFirstSlot;
  for (const char* slot : slots) check_like_parameters(slot, in[i++]);
  return {};
}

/// `flops` an element; reads everything, writes the parameters and the slots.
template <int flops>
Cost cost(const Problem& p) {
  Cost c{flops * p.inputs[0].elements(), 0};
  for (const Spec& s : p.inputs) c.bytes += s.bytes();
  c.bytes += (static_cast<std::int64_t>(p.inputs.size()) - kFirstSlot + 1) * p.inputs[0].bytes();
  return c;
}

double rest(const Attributes& a, const char* name) { return 1 - a.real(name); }

/// Kernel arguments: the inputs, the parameters' length, what a work-item does, then the operator's own numbers.
void run(Launch& l, std::int64_t chunk, std::int64_t group, const Arguments& numbers) {
  const std::int64_t n = l.in_spec(0).elements();
  l.run("any/update.cl", l.problem().op.name, opencl::range1(round_up(ceil_div(n, chunk), group), group), Arguments(l.inputs(), n, chunk, numbers));
}

template <Arguments (*numbers)(const Attributes&)>
std::vector<Variant> variants() {
  return {{.name = "chunks",
           .doc = "a run of elements for each work-item",
           .target = Target::cpu,
           .launch = [](Launch& l) { run(l, kPageChunk, 1, numbers(l.attributes())); }},
          {.name = "items", .doc = "one work-item an element", .launch = [](Launch& l) { run(l, 1, kGroup, numbers(l.attributes())); }}};
}

Arguments sgd_numbers(const Attributes&) { return {}; }
Arguments momentum_numbers(const Attributes& a) { return {a.real("momentum"), a.boolean("nesterov")}; }
Arguments adam_numbers(const Attributes& a) {
  return {a.real("beta1"), rest(a, "beta1"), a.real("beta2"), rest(a, "beta2"), a.real("eps"), a.boolean("decoupled")};
}
Arguments rmsprop_numbers(const Attributes& a) { return {a.real("alpha"), rest(a, "alpha"), a.real("eps")}; }
Arguments rmsprop_momentum_numbers(const Attributes& a) { return {a.real("alpha"), rest(a, "alpha"), a.real("eps"), a.real("momentum")}; }

/// What a reference sees of one element that counts.
struct Element {
  std::size_t i;
  double& p;
  double gradient;
  std::span<const double> hyper;  // of its group

  /// The gradient with the weights' decay joined to it.
  double slope() const { return gradient + hyper[kDecay] * p; }
};

template <class F>
void each_element(const HostCall& c, F f) {
  const auto p = c.written<double>(kParameters);
  const auto gradients = c.real(kGradients), hyper = c.real(kHyper);
  const std::size_t numbers = at(c.in_shape(kHyper)[1]);
  each_counted(c, kPages, [&](std::size_t i, std::int64_t group) { f(Element{i, p[i], gradients[i], hyper.subspan(at(group) * numbers, numbers)}); });
}

void sgd_reference(const HostCall& c) {
  each_element(c, [](const Element& e) { e.p -= e.hyper[kRate] * e.slope(); });
}

void momentum_reference(const HostCall& c) {
  const auto v = c.written<double>(kFirstSlot);
  const double mu = c.attributes().real("momentum");
  const bool nesterov = c.attributes().boolean("nesterov");
  each_element(c, [&](const Element& e) {
    const double g = e.slope();
    v[e.i] = mu * v[e.i] + g;
    e.p -= e.hyper[kRate] * (nesterov ? g + mu * v[e.i] : v[e.i]);
  });
}

void adam_reference(const HostCall& c) {
  const Attributes& a = c.attributes();
  const auto m = c.written<double>(kFirstSlot), v = c.written<double>(kFirstSlot + 1);
  const double beta1 = a.real("beta1"), beta2 = a.real("beta2"), eps = a.real("eps");
  const bool decoupled = a.boolean("decoupled");
  each_element(c, [&](const Element& e) {
    const double g = decoupled ? e.gradient : e.slope();
    if (decoupled) e.p *= 1 - e.hyper[kRate] * e.hyper[kDecay];
    m[e.i] = beta1 * m[e.i] + (1 - beta1) * g;
    v[e.i] = beta2 * v[e.i] + (1 - beta2) * g * g;
    e.p -= e.hyper[kRate] / e.hyper[kBias1] * m[e.i] / (std::sqrt(v[e.i]) / std::sqrt(e.hyper[kBias2]) + eps);
  });
}

/// g / (sqrt(v) + eps) after v has moved.
double rmsprop_direction(const Attributes& a, const Element& e, double& v) {
  const double g = e.slope(), alpha = a.real("alpha");
  v = alpha * v + (1 - alpha) * g * g;
  return g / (std::sqrt(v) + a.real("eps"));
}

void rmsprop_reference(const HostCall& c) {
  const auto v = c.written<double>(kFirstSlot);
  each_element(c, [&](const Element& e) { e.p -= e.hyper[kRate] * rmsprop_direction(c.attributes(), e, v[e.i]); });
}

void rmsprop_momentum_reference(const HostCall& c) {
  const auto v = c.written<double>(kFirstSlot), b = c.written<double>(kFirstSlot + 1);
  each_element(c, [&](const Element& e) {
    b[e.i] = c.attributes().real("momentum") * b[e.i] + rmsprop_direction(c.attributes(), e, v[e.i]);
    e.p -= e.hyper[kRate] * b[e.i];
  });
}

/// Samples with `slots` slots, of which the one at `positive` (from 0) holds squares; `numbers` numbers a group.
std::vector<Sample> samples(std::size_t slots, std::size_t positive, std::int64_t numbers, const std::vector<Attributes>& attributes) {
  std::vector<Fill> fills{Fill{}, Fill{}, uniform(0.1, 0.9), kPageFill};
  for (std::size_t s = 0; s < slots; ++s) fills.push_back(s == positive ? uniform(0.1, 2) : Fill{});
  const auto inputs = [=](std::int64_t n, std::int64_t pages) {
    Specs out{f32({n}), f32({n}), f32({kSampleGroups, numbers}), i32({pages, 2})};
    out.insert(out.end(), slots, f32({n}));
    return out;
  };
  return page_samples(inputs, attributes, fills);
}

const AttributeDef kMomentum{"momentum", Type::real, "share of the velocity that is kept"};
const AttributeDef kEps{"eps", Type::real, "added to the denominator"};
const AttributeDef kAlpha{"alpha", Type::real, "share of the mean square that is kept"};

}  // namespace

const OpDef& sgd_update_def() {
  static const OpDef def{
      .name = "sgd_update",
      .doc = "Gradient descent over a slab, in place. hyper is {rate, weight decay} a group.",
      .inputs = {"parameters", "gradients", "hyper", "pages"},
      .outputs = {},
      .infer = [](const Specs& in, const Attributes&) { return infer("sgd_update", in, {}, 2); },
      .cost = cost<4>,
      .reference = sgd_reference,
      .writes = {kParameters},
      .variants = variants<sgd_numbers>(),
      .samples = [] { return samples(0, 0, 2, {{}}); },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({3}), f32({4}), f32({1, 2}), i32({1, 2})}, {}, "sgd_update: gradients is [4]; accepted: [3]"},
                                         {{f32({3}), f32({3}), f32({1, 3}), i32({1, 2})}, {}, "sgd_update: hyper is [1, 3]; accepted: [1, 2]"},
                                         {{f32({2000}), f32({2000}), f32({1, 2}), i32({1, 2})}, {}, "sgd_update: pages is [1, 2]; accepted: [2, 2]"},
                                         {{i32({3}), f32({3}), f32({1, 2}), i32({1, 2})}, {}, "sgd_update: slab is int32 [3]; accepted: float32"}};
          },
  };
  return def;
}

const OpDef& momentum_update_def() {
  static const OpDef def{
      .name = "momentum_update",
      .doc = "Gradient descent with momentum over a slab, in place. hyper is {rate, weight decay} a group.",
      .inputs = {"parameters", "gradients", "hyper", "pages", "velocity"},
      .outputs = {},
      .attributes = {kMomentum, {"nesterov", Type::boolean, "look ahead along the velocity"}},
      .infer = [](const Specs& in, const Attributes&) { return infer("momentum_update", in, {"velocity"}, 2); },
      .cost = cost<8>,
      .reference = momentum_reference,
      .writes = {kParameters, kFirstSlot},
      .variants = variants<momentum_numbers>(),
      .samples =
          [] {
            return samples(1, 1, 2, {{{"momentum", 0.9}, {"nesterov", false}}, {{"momentum", 0.8}, {"nesterov", true}}});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({3}), f32({3}), f32({1, 2}), i32({1, 2}), f32({4})},
                                          {{"momentum", 0.9}, {"nesterov", false}},
                                          "momentum_update: velocity is [4]; accepted: [3]"}};
          },
  };
  return def;
}

const OpDef& adam_update_def() {
  static const OpDef def{
      .name = "adam_update",
      .doc = "Adam, or with decoupled decay AdamW, over a slab, in place. hyper is {rate, weight decay, 1 - beta1^t, 1 - beta2^t} a group.",
      .inputs = {"parameters", "gradients", "hyper", "pages", "mean", "variance"},
      .outputs = {},
      .attributes = {{"beta1", Type::real, "share of the mean that is kept"},
                     {"beta2", Type::real, "share of the variance that is kept"},
                     kEps,
                     {"decoupled", Type::boolean, "the decay shrinks the parameter instead of joining the gradient"}},
      .infer =
          [](const Specs& in, const Attributes&) {
            return infer("adam_update", in, {"mean", "variance"}, 4);
          },
      .cost = cost<16>,
      .reference = adam_reference,
      .writes = {kParameters, kFirstSlot, kFirstSlot + 1},
      .variants = variants<adam_numbers>(),
      .samples =
          [] {
            const auto with = [](bool decoupled) { return Attributes{{"beta1", 0.9}, {"beta2", 0.99}, {"eps", 1e-8}, {"decoupled", decoupled}}; };
            return samples(2, 1, 4, {with(false), with(true)});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({3}), f32({3}), f32({1, 2}), i32({1, 2}), f32({3}), f32({3})},
                                          {{"beta1", 0.9}, {"beta2", 0.99}, {"eps", 1e-8}, {"decoupled", false}},
                                          "adam_update: hyper is [1, 2]; accepted: [1, 4]"}};
          },
  };
  return def;
}

const OpDef& rmsprop_update_def() {
  static const OpDef def{
      .name = "rmsprop_update",
      .doc = "RMSprop without momentum over a slab, in place. hyper is {rate, weight decay} a group.",
      .inputs = {"parameters", "gradients", "hyper", "pages", "variance"},
      .outputs = {},
      .attributes = {kAlpha, kEps},
      .infer = [](const Specs& in, const Attributes&) { return infer("rmsprop_update", in, {"variance"}, 2); },
      .cost = cost<10>,
      .reference = rmsprop_reference,
      .writes = {kParameters, kFirstSlot},
      .variants = variants<rmsprop_numbers>(),
      .samples =
          [] {
            return samples(1, 0, 2, {{{"alpha", 0.9}, {"eps", 1e-8}}});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{
                {{f32({3}), f32({3}), f32({1, 2}), i32({1, 2}), f32({4})}, {{"alpha", 0.9}, {"eps", 1e-8}}, "rmsprop_update: variance is [4]; accepted: [3]"}};
          },
  };
  return def;
}

const OpDef& rmsprop_momentum_update_def() {
  static const OpDef def{
      .name = "rmsprop_momentum_update",
      .doc = "RMSprop with momentum over a slab, in place. hyper is {rate, weight decay} a group.",
      .inputs = {"parameters", "gradients", "hyper", "pages", "variance", "velocity"},
      .outputs = {},
      .attributes = {kAlpha, kEps, kMomentum},
      .infer =
          [](const Specs& in, const Attributes&) {
            return infer("rmsprop_momentum_update", in, {"variance", "velocity"}, 2);
          },
      .cost = cost<12>,
      .reference = rmsprop_momentum_reference,
      .writes = {kParameters, kFirstSlot, kFirstSlot + 1},
      .variants = variants<rmsprop_momentum_numbers>(),
      .samples =
          [] {
            return samples(2, 0, 2, {{{"alpha", 0.9}, {"eps", 1e-8}, {"momentum", 0.8}}});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({3}), f32({3}), f32({1, 2}), i32({1, 2}), f32({3}), f32({4})},
                                          {{"alpha", 0.9}, {"eps", 1e-8}, {"momentum", 0.8}},
                                          "rmsprop_momentum_update: velocity is [4]; accepted: [3]"}};
          },
  };
  return def;
}

namespace {
template <class... Slot>
void apply_update(const OpDef& op, Update u, Attributes attributes, const Slot&... slots) {
  apply(op, list(u.parameters.detached(), std::move(u.gradients), std::move(u.hyper), std::move(u.pages), slots.detached()...), std::move(attributes));
}
}  // namespace

void sgd_update(Update u) { apply_update(sgd_update_def(), std::move(u), {}); }

void momentum_update(Update u, const Value& velocity, double momentum, bool nesterov) {
  apply_update(momentum_update_def(), std::move(u), {{"momentum", momentum}, {"nesterov", nesterov}}, velocity);
}

void adam_update(Update u, const Value& mean, const Value& variance, const AdamUpdate& adam) {
  apply_update(adam_update_def(), std::move(u), {{"beta1", adam.beta1}, {"beta2", adam.beta2}, {"eps", adam.eps}, {"decoupled", adam.decoupled}}, mean,
               variance);
}

void rmsprop_update(Update u, const Value& variance, const Value& velocity, const RmspropUpdate& rmsprop) {
  Attributes attributes{{"alpha", rmsprop.alpha}, {"eps", rmsprop.eps}};
  if (rmsprop.momentum == 0) return apply_update(rmsprop_update_def(), std::move(u), std::move(attributes), variance);
  attributes.set("momentum", rmsprop.momentum);
  apply_update(rmsprop_momentum_update_def(), std::move(u), std::move(attributes), variance, velocity);
}

}  // namespace gemel::inline ops
