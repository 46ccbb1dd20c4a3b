// Clips gradients in slabs by their norm: two launches, whatever the number of parameters.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/ops/common.h"
#include "engine/ops/ops.h"
#include "engine/ops/update/slab_pages.h"

namespace gemel::inline ops {
namespace {

constexpr std::int64_t kSquareSums = 256;
constexpr std::int64_t kGroup = 256;  // work-items; as in clip.cl

Specs squares_infer(const Specs& in, const Attributes&) {
  check_pages("page_squares", in[0], in[1]);
  return {f32({kSquareSums})};
}

void squares_reference(const HostCall& c) {
  const auto g = c.real(0);
  const auto sums = c.out_real(0);
  const std::size_t run = at(std::max<std::int64_t>(1, ceil_div(c.in_shape(1)[0], kSquareSums)));
  std::fill(sums.begin(), sums.end(), 0.0);
  each_counted(c, 1, [&](std::size_t i, std::int64_t) { sums[i / at(Slab::kPageElements) / run] += g[i] * g[i]; });
}

Specs clip_infer(const Specs& in, const Attributes&) {
  check_pages("clip_pages", in[0], in[1]);
  check_float32("clip_pages", "squares", in[2]);
  check_rank("clip_pages", "squares", in[2], 1);
  return {f32({})};
}

void clip_reference(const HostCall& c) {
  double sum = 0;
  for (double s : c.real(2)) sum += s;
  const double norm = std::sqrt(sum), scale = std::min(1.0, c.attributes().real("max_norm") / (norm + 1e-6));
  const auto g = c.written<double>(0);
  each_counted(c, 1, [&](std::size_t i, std::int64_t) { g[i] *= scale; });
  c.out_real(0)[0] = norm;
}

void run_clip(Launch& l, const char* kernel, std::int64_t chunk) {
  const std::int64_t n = l.in_spec(0).elements(), group = chunk > 1 ? 1 : kGroup;
  Arguments arguments(l.inputs(), l.out(0), n, l.in_spec(2).elements());
  if (chunk > 1) arguments.add(chunk);
  arguments.add(l.attributes().real("max_norm"));
  // One work-item at least: the norm of nothing is 0.
  const std::int64_t items = std::max<std::int64_t>(1, ceil_div(n, chunk));
  l.run(chunk > 1 ? "cpu/clip.cl" : "gpu/clip.cl", kernel, opencl::range1(round_up(items, group), group), arguments);
}

}  // namespace

const OpDef& page_squares_def() {
  static const OpDef def{
      .name = "page_squares",
      .doc = "Sums of squares of a slab's elements that count, shared out over runs of pages: together the squared norm.",
      .inputs = {"gradients", "pages"},
      .outputs = {"squares"},
      .infer = squares_infer,
      .cost =
          [](const Problem& p) {
            return Cost{2 * p.inputs[0].elements(), p.inputs[0].bytes() + p.inputs[1].bytes() + p.outputs[0].bytes()};
          },
      .reference = squares_reference,
      .variants = {{.name = "runs",
                    .doc = "a run of pages for each work-item",
                    .target = Target::cpu,
                    .launch =
                        [](Launch& l) {
                          l.run("cpu/clip.cl", "page_squares_runs", opencl::range1(kSquareSums, 1), {l.in(0), l.in(1), l.out(0), l.in_spec(0).elements()});
                        }},
                   {.name = "groups",
                    .doc = "a run of pages for each group",
                    .target = Target::gpu,
                    .needs = {.group_size = kGroup},
                    .launch =
                        [](Launch& l) {
                          const std::int64_t pages = l.in_shape(1)[0], run = ceil_div(pages, kSquareSums), groups = pages > 0 ? ceil_div(pages, run) : 1;
                          l.run("gpu/clip.cl", "page_squares_groups", opencl::range1(groups * kGroup, kGroup),
                                {l.in(0), l.in(1), l.out(0), l.in_spec(0).elements(), kSquareSums, run});
                        }}},
      .samples =
          [] {
            return page_samples([](std::int64_t n, std::int64_t pages) { return Specs{f32({n}), i32({pages, 2})}; }, {{}}, {Fill{}, kPageFill});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({3, 4}), i32({1, 2})}, {}, "page_squares: slab is [3, 4], of rank 2; accepted: rank 1"},
                                         {{f32({1025}), i32({1, 2})}, {}, "page_squares: pages is [1, 2]; accepted: [2, 2]"}};
          },
  };
  return def;
}

const OpDef& clip_pages_def() {
  static const OpDef def{
      .name = "clip_pages",
      .doc = "Scales a slab's elements that count by min(1, max_norm / (norm + 1e-6)), in place, and gives the norm.",
      .inputs = {"gradients", "pages", "squares"},
      .outputs = {"norm"},
      .attributes = {{"max_norm", Type::real, "the largest norm that is left as it is"}},
      .infer = clip_infer,
      .cost =
          [](const Problem& p) {
            return Cost{p.inputs[0].elements(), 2 * p.inputs[0].bytes() + p.inputs[1].bytes() + p.inputs[2].bytes()};
          },
      .reference = clip_reference,
      .writes = {0},
      .variants = {{.name = "runs",
                    .doc = "a run of elements for each work-item",
                    .target = Target::cpu,
                    .launch = [](Launch& l) { run_clip(l, "clip_pages_runs", kPageChunk); }},
                   {.name = "groups",
                    .doc = "one work-item an element",
                    .target = Target::gpu,
                    .needs = {.group_size = kGroup},
                    .launch = [](Launch& l) { run_clip(l, "clip_pages_groups", 1); }}},
      .samples =
          [] {
            return page_samples(
                [](std::int64_t n, std::int64_t pages) {
                  return Specs{f32({n}), i32({pages, 2}), f32({300})};
                },
                {{{"max_norm", 0.5}}, {{"max_norm", 1e3}}}, {Fill{}, kPageFill, uniform(0.1, 2)});
          },
      .rejected =
          [] {
            return std::vector<Rejected>{{{f32({4}), i32({1, 2}), f32({})}, {{"max_norm", 1.0}}, "clip_pages: squares is [], of rank 0; accepted: rank 1"}};
          },
  };
  return def;
}

Value page_squares(Value gradients, Value pages) { return apply(page_squares_def(), list(std::move(gradients), std::move(pages)))[0]; }

Value clip_pages(const Value& gradients, Value pages, Value squares, double max_norm) {
  if (!(max_norm > 0)) throw UsageError(fmt::format("clip_pages: max_norm {} given; accepted: above 0", max_norm));
  return apply(clip_pages_def(), list(gradients.detached(), std::move(pages), std::move(squares)), {{"max_norm", max_norm}})[0];
}

}  // namespace gemel::inline ops
