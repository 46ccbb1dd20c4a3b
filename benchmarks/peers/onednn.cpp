// gemel_onednn: Gemel's matrix products and convolutions against oneDNN's, in turn, in one process.
//
//   gemel_onednn gemm [--pairs 5] [--clblast]
//   gemel_onednn convolution [--pairs 5] [--batch-size 8]
//   gemel_onednn pointwise [--pairs 9] [--batch-size 8]
//
// gemm: cubes, every matrix product of ResNet-50 and BERT-base (128 tokens) at batch 8, and few rows; in all transpositions, on the
// same plain layouts; packing is part of each call on both sides. convolution: the distinct layers of ResNet-50 and VGG16, forward
// and both gradients; oneDNN computes in its own blocked layouts, and reordering into them does not count. pointwise: the 1x1
// convolutions of ResNet-50 and their gradients, against matrix products of the same extents; what either reads and writes is out of
// the caches before each call, as in a step.
// A ratio is oneDNN's time over Gemel's, the median of the pairs, with the least and the greatest.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "benchmarks/micro/benchmark_main.h"
#include "engine/device/dispatch.h"
#include "engine/ops/convolution/convolution_common.h"
#include "engine/ops/ops.h"
#include "frontends/cli/options/common_options.h"
#include "frontends/cli/run/bench_case.h"
#include "frontends/cli/run/operator_run.h"
#include "frontends/cli/run/planned_step.h"
#include "frontends/cli/run/roofline.h"
#include "frontends/models/pictures/picture_models.h"

namespace gemel {
namespace {

using cli::OperatorCase;
using cli::OperatorRun;

using dnnl::memory;
using Call = std::function<void()>;

/// A primitive of oneDNN with memory for it.
class Peer {
 public:
  using Memories = std::vector<std::pair<int, memory::desc>>;

  Peer(const dnnl::primitive& primitive, const Memories& memories) : primitive_(primitive) {
    for (const auto& [name, desc] : memories) {
      memory m(desc, engine());
      auto* values = static_cast<float*>(m.get_data_handle());
      for (std::size_t i = 0; i < desc.get_size() / sizeof(float); ++i) values[i] = static_cast<float>(i * 2654435761U % 2048) / 1024 - 1;
      arguments_.emplace(name, m);
    }
  }
  void operator()() {
    primitive_.execute(stream(), arguments_);
    stream().wait();
  }

  static dnnl::engine& engine() {
    static dnnl::engine e(dnnl::engine::kind::cpu, 0);
    return e;
  }

 private:
  static dnnl::stream& stream() {
    static dnnl::stream s(engine());
    return s;
  }

  dnnl::primitive primitive_;
  std::unordered_map<int, memory> arguments_;
};

memory::dims dims(const Shape& s) { return {s.begin(), s.end()}; }
memory::dims dims(const Pair& p) { return {p.begin(), p.end()}; }

/// The plain layout of a matrix, or of matrices; `transposed` says that it lies with its last two axes exchanged.
memory::desc matrices(const Shape& lies, bool transposed) {
  memory::dims extents = dims(lies), strides(lies.rank(), 1);
  for (int i = lies.rank() - 2; i >= 0; --i) strides[i] = strides[i + 1] * extents[i + 1];
  if (transposed) std::swap(extents[lies.rank() - 1], extents[lies.rank() - 2]), std::swap(strides[lies.rank() - 1], strides[lies.rank() - 2]);
  return {extents, memory::data_type::f32, strides};
}

Peer matmul_peer(const OperatorCase& c) {
  const dnnl::matmul::primitive_desc p(Peer::engine(), matrices(c.in[0].shape, c.attributes.boolean("transpose_a")),
                                       matrices(c.in[1].shape, c.attributes.boolean("transpose_b")), matrices(c.out[0].shape, false));
  return {dnnl::matmul(p), {{DNNL_ARG_SRC, p.src_desc()}, {DNNL_ARG_WEIGHTS, p.weights_desc()}, {DNNL_ARG_DST, p.dst_desc()}}};
}

convolution::Direction direction_of(const OperatorCase& c) {
  using convolution::Direction;
  return c.op == &conv2d_def() ? Direction::forward : c.op == &conv2d_input_gradient_def() ? Direction::input : Direction::weights;
}

Peer convolution_peer(const OperatorCase& c) {
  using convolution::Direction;
  const Direction direction = direction_of(c);
  const convolution::Geometry g = convolution::geometry_of(direction, c.in, c.out, c.attributes);
  const auto any = [](const memory::dims& extents) { return memory::desc(extents, memory::data_type::f32, memory::format_tag::any); };
  const auto x = any({g.n, g.c, g.h, g.w}), w = any({g.k, g.c, g.r, g.s}), y = any({g.n, g.k, g.p, g.q});
  const auto far_padding = [](std::int64_t out, std::int64_t stride, std::int64_t window, std::int64_t in, std::int64_t near) {
    return (out - 1) * stride + window - in - near;
  };
  const memory::dims stride = dims(g.stride), dilation{g.dilation[0] - 1, g.dilation[1] - 1}, near = dims(g.padding),
                     far{far_padding(g.p, g.stride[0], g.r, g.h, g.padding[0]), far_padding(g.q, g.stride[1], g.s, g.w, g.padding[1])};
  constexpr auto algorithm = dnnl::algorithm::convolution_auto;
  const dnnl::convolution_forward::primitive_desc forward(Peer::engine(), dnnl::prop_kind::forward_training, algorithm, x, w, y, stride, dilation, near, far);
  if (direction == Direction::forward)
    return {dnnl::convolution_forward(forward),
            {{DNNL_ARG_SRC, forward.src_desc()}, {DNNL_ARG_WEIGHTS, forward.weights_desc()}, {DNNL_ARG_DST, forward.dst_desc()}}};
  if (direction == Direction::input) {
    const dnnl::convolution_backward_data::primitive_desc p(Peer::engine(), algorithm, x, w, y, stride, dilation, near, far, forward);
    return {dnnl::convolution_backward_data(p),
            {{DNNL_ARG_DIFF_SRC, p.diff_src_desc()}, {DNNL_ARG_WEIGHTS, p.weights_desc()}, {DNNL_ARG_DIFF_DST, p.diff_dst_desc()}}};
  }
  const dnnl::convolution_backward_weights::primitive_desc p(Peer::engine(), algorithm, x, w, y, stride, dilation, near, far, forward);
  return {dnnl::convolution_backward_weights(p),
          {{DNNL_ARG_SRC, p.src_desc()}, {DNNL_ARG_DIFF_WEIGHTS, p.diff_weights_desc()}, {DNNL_ARG_DIFF_DST, p.diff_dst_desc()}}};
}

struct Extents {
  std::int64_t m, n, k;
};
OperatorCase matrix_product(const Shape& batch, const Extents& extents_of_one, bool ta, bool tb) {
  const auto [m, n, k] = extents_of_one;
  const auto joined = [&](std::int64_t rows, std::int64_t columns) {
    std::vector<std::int64_t> extents(batch.begin(), batch.end());
    extents.insert(extents.end(), {rows, columns});
    return Spec{Shape(extents)};
  };
  return {&matmul_def(), {{"transpose_a", ta}, {"transpose_b", tb}}, {ta ? joined(k, m) : joined(m, k), tb ? joined(n, k) : joined(k, n)}, {joined(m, n)}};
}

std::vector<OperatorCase> convolutions(const std::string& model, std::int64_t batch) {
  const auto host = Session::reference();
  const auto network = models::make(model, {});
  train::ClassificationTask task(*network, 1);
  std::vector<OperatorCase> out;
  for (OperatorCase& c : cli::distinct_operators(cli::capture_step(*host, task, {f32({batch, 224, 224, 3}), i64({batch})}, cli::Work::train)))
    if (c.op == &conv2d_def() || c.op == &conv2d_input_gradient_def() || c.op == &conv2d_weight_gradient_def()) out.push_back(std::move(c));
  return out;
}

/// The matrix product that a 1x1 convolution or a gradient of it is.
OperatorCase product_of(const OperatorCase& c) {
  using convolution::Direction;
  const convolution::Geometry g = convolution::geometry_of(direction_of(c), c.in, c.out, c.attributes);
  switch (direction_of(c)) {
    case Direction::forward:
      return matrix_product({}, {g.pixels(), g.k, g.c}, false, false);
    case Direction::input:
      return matrix_product({}, {g.pixels(), g.c, g.k}, false, true);
    default:
      return matrix_product({}, {g.c, g.k, g.pixels()}, true, false);
  }
}

struct Group {
  std::string name;
  std::vector<OperatorCase> cases;
};

std::vector<Group> matrix_products() {
  std::vector<Group> groups{{"cube", {}}, {"resnet50", {}}, {"bert", {}}, {"few rows", {}}, {"small batch", {}}};
  const auto add = [&](int group, const Shape& batch, std::int64_t m, std::int64_t n, std::int64_t k) {
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) groups[static_cast<std::size_t>(group)].cases.push_back(matrix_product(batch, {m, n, k}, ta, tb));
  };
  for (const std::int64_t n : {1024, 2048}) add(0, {}, n, n, n);
  std::set<std::array<std::int64_t, 3>> known;  // layers that differ in their stride alone are the same product
  for (const OperatorCase& c : convolutions("resnet50", 8)) {
    if (c.op != &conv2d_def() || c.in[1].shape[0] != 1) continue;
    const std::array<std::int64_t, 3> e{c.out[0].shape.elements() / c.out[0].shape[3], c.in[1].shape[3], c.in[1].shape[2]};
    if (known.insert(e).second) add(1, {}, e[0], e[1], e[2]);
  }
  add(1, {}, 8, 1000, 2048);
  for (const auto& [n, k] : {std::pair{768, 768}, std::pair{3072, 768}, std::pair{768, 3072}}) add(2, {}, 1024, n, k);
  add(2, {8, 12}, 128, 128, 64), add(2, {8, 12}, 128, 64, 128);
  for (const std::int64_t m : {1, 2, 4, 8}) add(3, {}, m, 4096, 4096);
  for (const std::int64_t m : {16, 32, 64})
    for (const auto& [n, k] : {std::pair{120, 400}, std::pair{256, 256}, std::pair{1000, 256}, std::pair{1000, 512}}) add(4, {}, m, n, k);
  return groups;
}

std::vector<Group> layers(std::int64_t batch) {
  std::vector<Group> groups{{"forward", {}}, {"input gradient", {}}, {"weight gradient", {}}};
  for (const char* model : {"resnet50", "vgg16"})
    for (OperatorCase& c : convolutions(model, batch)) groups[static_cast<std::size_t>(direction_of(c))].cases.push_back(std::move(c));
  return groups;
}

std::vector<Group> pointwise_layers(std::int64_t batch) {
  std::vector<Group> groups{{"forward", {}}, {"input gradient", {}}, {"weight gradient", {}}};
  for (OperatorCase& c : convolutions("resnet50", batch)) {
    const Shape& window = direction_of(c) == convolution::Direction::weights ? c.out[0].shape : c.in[1].shape;
    if (window[0] == 1) groups[static_cast<std::size_t>(direction_of(c))].cases.push_back(std::move(c));
  }
  return groups;
}

/// Writes more than all caches hold, from as many threads as compute.
void empty_caches(const opencl::DeviceProfile& profile) {
  static std::vector<std::vector<char>> memory(static_cast<std::size_t>(profile.compute_units));
  const auto bytes = static_cast<std::size_t>(2 * std::max<std::int64_t>(profile.cache_bytes, 16 << 20) / profile.compute_units + (8 << 20));
  std::vector<std::thread> threads;
  for (auto& part : memory)
    threads.emplace_back([&part, bytes] {
      const char last = part.empty() ? 0 : part[0];
      part.assign(bytes, static_cast<char>(last + 1));
    });
  for (std::thread& t : threads) t.join();
}

/// Seconds of one call with nothing in the caches, the median of three.
double cold_seconds(const Call& call, const opencl::DeviceProfile& profile) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  call();  // threads that have slept are awake
  for (int i = 0; i < 3; ++i) {
    empty_caches(profile);
    const auto begin = Clock::now();
    call();
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return cli::spread_of(times).median;
}

/// Seconds of one call, measured for `span` seconds after as long without counting: the threads of the one before it, which wait
/// in a loop for more work, have gone to sleep by then.
double seconds(const Call& call, double span = 0.03) {
  using Clock = std::chrono::steady_clock;
  double passed = 0;
  int calls = 0;
  for (int counts = 0; counts < 2; ++counts) {
    const auto begin = Clock::now();
    calls = 0;
    do call(), ++calls, passed = std::chrono::duration<double>(Clock::now() - begin).count();
    while (passed < span);
  }
  return passed / calls;
}

struct Result {
  double ratio = 0, share = 0, over_clblast = 0;
  std::string name;
};

struct Measuring {
  std::int64_t pairs;
  bool clblast, cold;
};

Result compare(Session& session, const OperatorCase& c, const Measuring& how, const cli::Roofline& roofline) {
  const auto [pairs, clblast, cold] = how;
  opencl::Device& device = session.device();
  OperatorRun own(session, c);
  const Problem problem = c.problem();
  const Variant& chosen = choose(problem, device.profile());
  Peer peer = c.op == &matmul_def() ? matmul_peer(c) : cold ? matmul_peer(product_of(c)) : convolution_peer(c);
  const Call ours = [&] { own.enqueue(chosen), device.finish(); };
  const auto other = std::ranges::find_if(
      problem.op.variants, [&](const Variant& v) { return clblast && std::string_view(v.name) == "clblast" && !declines(v, problem, device.profile()); });
  const bool has_clblast = other != problem.op.variants.end();
  std::vector<double> own_times, peer_times, ratios, over_clblast;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const auto measure = [&, is_cold = cold](const Call& call) { return is_cold ? cold_seconds(call, device.profile()) : seconds(call); };
    own_times.push_back(measure(ours)), peer_times.push_back(measure([&] { peer(); }));
    ratios.push_back(peer_times.back() / own_times.back());
    if (has_clblast) over_clblast.push_back(seconds([&] { own.enqueue(*other), device.finish(); }, 0) / own_times.back());
  }
  const Cost cost = problem.op.cost(problem);
  const double own_time = cli::spread_of(own_times).median;
  const cli::Spread ratio = cli::spread_of(ratios);
  Result r{ratio.median, roofline.seconds(problem) / own_time, 0, fmt::format("{} {}", chosen.name, to_string(problem))};
  fmt::print("{:>9.3f} ms {:>6.1f} GFLOP/s {:>4.0f} %   oneDNN {:>9.3f} ms   ratio {:.2f} ({:.2f}..{:.2f})", 1e3 * own_time,
             1e-9 * static_cast<double>(cost.flops) / own_time, 100 * r.share, 1e3 * cli::spread_of(peer_times).median, r.ratio, ratio.min, ratio.max);
  if (has_clblast) {
    const cli::Spread over = cli::spread_of(over_clblast);
    r.over_clblast = over.median;
    fmt::print("   CLBlast {:>5.1f} x ({:.1f}..{:.1f})", over.median, over.min, over.max);
  }
  fmt::print("   {}\n", r.name);
  std::fflush(stdout);
  return r;
}

/// "geometric mean 0.97, least 0.81 (...)"
std::string summary(const std::vector<Result>& results, double Result::*figure) {
  double logarithms = 0;
  const Result* least = &results[0];
  for (const Result& r : results) {
    logarithms += std::log(r.*figure);
    if (r.*figure < least->*figure) least = &r;
  }
  return fmt::format("geometric mean {:.2f}, least {:.2f} ({})", std::exp(logarithms / static_cast<double>(results.size())), least->*figure, least->name);
}

int run(const std::vector<std::string>& arguments) {
  namespace po = cli::po;
  po::options_description options("options", 110);
  auto option = options.add_options();
  option("what", po::value<std::string>()->required(), "gemm, convolution or pointwise");
  option("batch-size", po::value<std::int64_t>()->default_value(8), "pictures at a time, of convolutions");
  option("only", po::value<std::string>()->default_value(""),
         "only this group: cube, resnet50, bert, few rows or small batch; forward, input gradient or weight gradient");
  option("pairs", po::value<std::int64_t>()->default_value(5), "measurements of each in turn");
  option("clblast", po::bool_switch(), "CLBlast's time for each matrix product too, of one call in each pair: minutes");
  cli::add_device_options(options);
  po::positional_options_description positional;
  positional.add("what", 1);
  const auto v = cli::parse("gemel_onednn", "Matrix products and convolutions against oneDNN's.", options, arguments, positional);
  const auto what = v["what"].as<std::string>(), only = v["only"].as<std::string>();
  check_choice("gemel_onednn", what, {"gemm", "convolution", "pointwise"});
  const auto device = opencl::Device::open(cli::device_options(v));
  const std::string units = fmt::format("{}", device->profile().compute_units), threads = opencl::from_environment("OMP_NUM_THREADS");
  if (threads.empty() ? v["threads"].as<int>() > 0 : threads != units)
    throw UsageError(fmt::format("OMP_NUM_THREADS: oneDNN has '{}' threads and the device {} units; accepted: OMP_NUM_THREADS={}", threads, units, units));
  cli::say_device(device->profile());
  Session session(device);
  const cli::Roofline roofline = cli::measure_roofline(session);
  fmt::print("{}; oneDNN {}.{}.{}\n", to_string(roofline), dnnl::version()->major, dnnl::version()->minor, dnnl::version()->patch);
  const std::int64_t batch = cli::whole_number(v, "batch-size", 1, 1e6);
  const std::vector<Group> groups = what == "gemm" ? matrix_products() : what == "pointwise" ? pointwise_layers(batch) : layers(batch);
  const Measuring how{cli::whole_number(v, "pairs", 1, 1e6), v["clblast"].as<bool>(), what == "pointwise"};
  std::vector<std::string> names;
  for (const Group& g : groups) names.push_back(g.name);
  if (!only.empty()) check_choice("--only", only, names);
  std::string summaries;
  for (const Group& g : groups) {
    if (!only.empty() && g.name != only) continue;
    std::vector<Result> results;
    for (const OperatorCase& c : g.cases) results.push_back(compare(session, c, how, roofline));
    summaries += fmt::format("{}: oneDNN's time over Gemel's: {}\n", g.name, summary(results, &Result::ratio));
    summaries += fmt::format("{}: share of the roofline: {}\n", g.name, summary(results, &Result::share));
    if (v["clblast"].as<bool>()) summaries += fmt::format("{}: CLBlast's time over Gemel's: {}\n", g.name, summary(results, &Result::over_clblast));
  }
  fmt::print("{}", summaries);
  return 0;
}

}  // namespace
}  // namespace gemel

int main(int count, char** values) { return gemel::benchmark_main("gemel_onednn", gemel::run, count, values); }
