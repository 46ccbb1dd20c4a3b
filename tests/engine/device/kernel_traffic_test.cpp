// What kernels of GPUs load from and store to global memory, against what `gemel roofline` counts: each buffer once. What a kernel loads again, and finds in
// a cache, stands here as a formula of its tiles, so that none begins to load more unnoticed.
#include "tests/support/operators/kernel_traffic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <utility>

#include "engine/device/dispatch.h"
#include "engine/ops/ops.h"
#include "tests/support/device/test_device.h"
#include "tests/support/environment_variable.h"

namespace gemel::testing {
namespace {

using K = KernelOfSample;

// ---- products: each tile loads its rows of A and its columns of B

struct ProductExtents {
  double m, n, k;
};
double tile_loads(const K& kernel, const ProductExtents& p) {
  const double rows = kernel.of("ROWS"), columns = kernel.of("COLUMNS");
  return std::ceil(p.m / rows) * std::ceil(p.n / columns) * (rows + columns) * p.k - kernel.elements(0) - kernel.elements(1);
}
double gemm_again(const K& k) { return tile_loads(k, {k.extent(0, 0), k.extent(1, 1), k.extent(0, 1)}); }

/// Pixels of the results of a convolution without padding.
double windows_of(const K& k, double image, double taps, int axis) {
  return std::floor((image - taps) / static_cast<double>(k.sample.attributes.integers("stride")[static_cast<std::size_t>(axis)])) + 1;
}
double pixels_of(const K& k) { return k.extent(0, 0) * windows_of(k, k.extent(0, 1), k.extent(1, 0), 0) * windows_of(k, k.extent(0, 2), k.extent(1, 1), 1); }
double conv_again(const K& k) { return tile_loads(k, {pixels_of(k), k.extent(1, 3), k.extent(1, 0) * k.extent(1, 1) * k.extent(1, 2)}); }
/// dy [n, p, q, k], x [n, h, w, c]: rows are taps and channels of x.
double conv_weight_again(const K& k) {
  const auto weights = k.sample.attributes.shape("shape");
  return tile_loads(k, {static_cast<double>(weights[0] * weights[1] * weights[2]), k.extent(0, 3), k.extent(0, 0) * k.extent(0, 1) * k.extent(0, 2)});
}

/// A run of pixels loads what its windows cover, and the taps of its channel.
double depthwise_again(const K& k) {
  const double q = windows_of(k, k.extent(0, 2), k.of("WINDOW_COLUMNS"), 1), p = windows_of(k, k.extent(0, 1), k.of("WINDOW_ROWS"), 0);
  double of_row = 0;
  for (double first = 0; first < q; first += k.of("RUN")) {
    const double covered = (k.of("RUN") - 1) * k.of("COLUMN_STRIDE") + k.of("WINDOW_COLUMNS");
    of_row += k.of("WINDOW_ROWS") * (std::min(covered, k.extent(0, 2) - first * k.of("COLUMN_STRIDE")) + k.of("WINDOW_COLUMNS"));
  }
  return k.extent(0, 0) * p * k.extent(0, 3) * of_row - k.elements(0) - k.elements(1);
}
/// For each row of dy: dy, and each column of x under the window once for each of its rows.
double depthwise_weight_again(const K& k) {
  const double step = k.of("COLUMN_STRIDE"), new_columns = std::min(step, k.of("WINDOW_COLUMNS")), q = k.extent(0, 2);
  const double columns = std::max(k.of("WINDOW_COLUMNS") - step, 0.0) + q * new_columns;
  return k.extent(0, 0) * k.extent(0, 1) * k.extent(0, 3) * (q + k.of("WINDOW_ROWS") * columns) - k.elements(0) - k.elements(1);
}

// ---- attention: a block of rows by 64 columns loads the vectors of both for each product, and again those that are added up

/// Of a kernel whose rows are queries (0) or keys (1), for `products` of a block and sums of `summed` vectors of so many elements each, and other numbers.
double block_loads(const K& k, int rows, double of_products, double summed, double others) {
  const int axis = 1, query = k.sample.inputs.size() > 4 ? 1 : 0;
  const double queries = k.extent(static_cast<std::size_t>(query), axis), keys = k.extent(static_cast<std::size_t>(query + 1), axis);
  const double blocks = std::ceil((rows ? keys : queries) / k.of("ROWS")) * std::ceil((rows ? queries : keys) / 64);
  const double heads = k.extent(0, 0) * k.extent(0, 2), biases = 4 * k.of("GROUP");
  return heads * blocks * ((k.of("ROWS") + 64) * of_products + 64 * summed + biases + others);
}
double attention_again(const K& k) { return block_loads(k, 0, k.of("HEAD"), k.of("VALUE"), 0) - k.elements(0) - k.elements(1) - k.elements(2); }
double dquery_again(const K& k) { return block_loads(k, 0, k.of("HEAD") + k.of("VALUE"), k.of("HEAD"), 0) - k.elements(1) - k.elements(2) - k.elements(3); }
double dkey_again(const K& k) {
  const double statistics = 3 * 64, once = k.elements(0) + k.elements(1) + k.elements(2) + k.elements(3) + 3 * k.elements(0) / k.of("VALUE");
  return block_loads(k, 1, k.of("HEAD") + k.of("VALUE"), k.of("HEAD") + k.of("VALUE"), statistics) - once;
}

// ---- rows

double rows_of(const K& k) { return k.elements(0) / k.extent(0, -1); }
double gamma_and_beta(const K& k) { return 2 * (rows_of(k) - 1) * k.extent(0, -1); }
/// gamma in each row, mean and inverse for each item of a row.
double layer_norm_slope(const K& k) { return (rows_of(k) - 1) * k.extent(0, -1) + 2 * (k.of("ITEMS") - 1) * rows_of(k); }
double twice_again(const K& k) { return 2 * k.elements(0); }
/// x once more, and of each row one of it and, three times, its label of eight bytes.
double labelled_again(const K& k) { return k.elements(0) + 7 * rows_of(k); }

// ---- channels: groups of 32 of them x 8 lanes. Groups along the rows each combine all parts, and load what the channels have for each lane

constexpr double kLanes = 8;
double groups_along_rows(const K& k) { return static_cast<double>(k.groups) / std::ceil(k.extent(0, -1) / 32); }
double in_lanes(const K& k) { return (kLanes * groups_along_rows(k) - 1) * k.extent(0, -1); }
double moments_again(const K& k) { return in_lanes(k) + k.extent(0, -1); }
double sums_again(const K& k) { return in_lanes(k); }
/// @param others  elements of the kernel's other buffers
double parts_again(const K& k, double others) { return (groups_along_rows(k) - 1) * (k.read / 4 - others); }
double normalise_again(const K& k) {
  const double counts = 2, others = k.elements(0) + 4 * k.extent(0, -1) + counts, origin = in_lanes(k) + k.extent(0, -1);
  return parts_again(k, others) + origin + 2 * in_lanes(k);
}
double slope_again(const K& k) { return parts_again(k, 2 * k.elements(0) + 3 * k.extent(0, -1)) + 3 * in_lanes(k); }

// ---- pooling: each window loads its taps

double taps_inside(const K& k, int axis, double image, double windows) {
  const auto number = [&](const char* name) { return static_cast<double>(k.sample.attributes.integers(name)[static_cast<std::size_t>(axis)]); };
  double count = 0;
  for (double window = 0; window < windows; ++window)
    for (double tap = 0; tap < number("kernel"); ++tap) {
      const double place = window * number("stride") - number("padding") + tap;
      count += place >= 0 && place < image;
    }
  return count;
}
/// Taps of all windows of an image of so many rows and columns.
double all_taps(const K& k, double rows, double columns) {
  const auto windows = [&](int axis, double image) {
    const auto number = [&](const char* name) { return static_cast<double>(k.sample.attributes.integers(name)[static_cast<std::size_t>(axis)]); };
    return std::floor((image + 2 * number("padding") - number("kernel")) / number("stride")) + 1;
  };
  return k.extent(0, 0) * k.extent(0, 3) * taps_inside(k, 0, rows, windows(0, rows)) * taps_inside(k, 1, columns, windows(1, columns));
}
double pool_again(const K& k) { return all_taps(k, k.extent(0, 1), k.extent(0, 2)) - k.elements(0); }
/// Of dy, and of max pooling's taps, which lie beside it.
double pool_gradient_again(const K& k) {
  const Shape x = k.sample.attributes.shape("shape");
  return static_cast<double>(k.sample.inputs.size()) * (all_taps(k, static_cast<double>(x[1]), static_cast<double>(x[2])) - k.elements(0));
}

std::vector<TrafficCase> cases();

/// A word for errors is counted whole; kernels use it where an index is out of range.
double allowed(double bytes) {
  constexpr double kErrorWord = 20;
  return std::max(0.02 * bytes, kErrorWord);
}

TEST(KernelTraffic, is_what_roofline_counts) {
  if (!test_device().profile().is_emulator) GTEST_SKIP() << "oclgrind counts loads and stores";
  const Variable counts("OCLGRIND_INST_COUNTS", "1"), races("OCLGRIND_DATA_RACES", "0"), uninitialized("OCLGRIND_UNINITIALIZED", "0");
  Session session(pretended_device("gpu:units=2,wave=32,group=256,local=32768"));
  for (const TrafficCase& c : cases()) {
    ASSERT_EQ(c.samples.size(), 3u) << c.name;
    for (const Sample& sample : c.samples) {
      SCOPED_TRACE(c.name + " by " + c.variant + ", " + to_string(sample.inputs[0]));
      const TrafficByKernel is = executed_traffic(c, sample, session);
      for (const auto& [kernel, traffic] : counted_traffic(c, sample, session.device().profile())) {
        const auto found = is.find(kernel);
        ASSERT_NE(found, is.end()) << kernel;
        EXPECT_NEAR(found->second.loaded, traffic.loaded, allowed(traffic.loaded)) << kernel << " loads";
        EXPECT_NEAR(found->second.stored, traffic.stored, allowed(traffic.stored)) << kernel << " stores";
      }
    }
  }
}

// ---- the cases, each of three samples

using Sizes = std::vector<std::tuple<std::int64_t, std::int64_t>>;
const Sizes kMatrices{{32, 64}, {16, 200}, {32, 250}};

/// Samples of the attributes and fills of the operator's own first one.
template <class Inputs>
std::vector<Sample> samples_of(const OpDef& op, const Sizes& sizes, const Inputs& inputs) {
  std::vector<Sample> out;
  const Sample own = op.samples()[0];
  for (const auto& [rows, columns] : sizes) out.push_back({inputs(rows, columns), own.attributes, own.fills});
  return out;
}
Specs one_matrix(std::int64_t rows, std::int64_t n) { return {f32({rows, n})}; }

std::vector<TrafficCase> product_cases() {
  std::vector<TrafficCase> out;
  for (const char* tile : {"group_tile_128x128", "group_tile_128x32"}) {
    TrafficCase c{"matmul", matmul_def(), tile, {}, {{"gemm_tile", gemm_again}}};
    for (const auto& [m, n, k] : {std::tuple{66, 34, 40}, {64, 32, 32}, {33, 20, 65}})
      c.samples.push_back({{f32({m, k}), f32({k, n})}, {{"transpose_a", false}, {"transpose_b", false}}});
    out.push_back(c);
  }
  TrafficCase forward{"conv2d", conv2d_def(), "group_tiles", {}, {{"conv_tile", conv_again}}};
  TrafficCase weights{"conv2d_weight_gradient", conv2d_weight_gradient_def(), "group_tiles", {}, {{"conv_weight_tile", conv_weight_again}}};
  TrafficCase depthwise{"depthwise", conv2d_def(), "depthwise_window", {}, {{"depthwise_window", depthwise_again}}};
  TrafficCase depthwise_weights{
      "depthwise weights", conv2d_weight_gradient_def(), "depthwise_window", {}, {{"depthwise_window_weight_gradient", depthwise_weight_again}}};
  for (const auto& [side, taps, stride] : {std::tuple{9, 3, 1}, {12, 1, 1}, {11, 3, 2}}) {
    const std::int64_t channels = 12, results = 20, windows = (side - taps) / stride + 1;
    Attributes a{{"stride", Axes{stride, stride}}, {"padding", Axes{0, 0}}, {"dilation", Axes{1, 1}}, {"groups", 1}};
    const Spec x = f32({2, side, side, channels}), w = f32({taps, taps, channels, results}), y = f32({2, windows, windows, results});
    forward.samples.push_back({{x, w}, a});
    a.set("shape", w.shape);
    weights.samples.push_back({{y, x}, a});
    const Spec each = f32({3, 3, 1, channels}), dy = f32({2, (side - 3) / stride + 1, (side - 3) / stride + 1, channels});
    a.set("groups", channels);
    a.set("shape", each.shape);
    depthwise_weights.samples.push_back({{dy, x}, a});
    depthwise.samples.push_back({{x, each}, {{"stride", Axes{stride, stride}}, {"padding", Axes{0, 0}}, {"dilation", Axes{1, 1}}, {"groups", channels}}});
  }
  for (TrafficCase& c : {std::ref(forward), std::ref(weights), std::ref(depthwise), std::ref(depthwise_weights)}) out.push_back(c);
  return out;
}

std::vector<TrafficCase> row_cases() {
  const auto norm = [](std::int64_t rows, std::int64_t n) { return Specs{f32({rows, n}), f32({n}), f32({n})}; };
  const auto norm_backward = [](std::int64_t rows, std::int64_t n) { return Specs{f32({rows, n}), f32({rows, n}), f32({n}), f32({rows}), f32({rows})}; };
  const auto labelled = [](std::int64_t rows, std::int64_t n) { return Specs{f32({rows, n}), i64({rows})}; };
  return {
      {"layer_norm", layer_norm_def(), "row_in_registers", samples_of(layer_norm_def(), kMatrices, norm), {{"layer_norm_row", gamma_and_beta}}},
      {"layer_norm_backward",
       layer_norm_backward_def(),
       "row_in_registers",
       samples_of(layer_norm_backward_def(), kMatrices, norm_backward),
       {{"layer_norm_backward_row", layer_norm_slope}}},
      {"softmax", softmax_def(), "group_a_row", samples_of(softmax_def(), kMatrices, one_matrix), {{"softmax_group", twice_again}}},
      {"cross_entropy", cross_entropy_def(), "group_a_row", samples_of(cross_entropy_def(), kMatrices, labelled), {{"cross_entropy_group", labelled_again}}}};
}

std::vector<TrafficCase> reduction_cases() {
  TrafficCase along{"sum along rows", sum_def(), "groups", {}, {}}, down{"sum down columns", sum_def(), "tiles", {}, {}};
  TrafficCase turned{"transpose", transpose_def(), "tiles_local", {}, {}};
  for (const auto& [rows, n] : Sizes{{33, 65}, {16, 1001}, {301, 17}}) {
    along.samples.push_back({{f32({rows, n})}, {{"axes", Axes{1}}, {"keep", false}}});
    down.samples.push_back({{f32({rows, n})}, {{"axes", Axes{0}}, {"keep", false}}});
    turned.samples.push_back({{f32({rows, n})}, {{"order", Axes{1, 0}}}});
  }
  return {along, down, turned};
}

std::vector<TrafficCase> image_cases() {
  TrafficCase norm{"batch_norm", batch_norm_def(), "tiles", {}, {{"batch_norm_moments_tile", moments_again}, {"batch_norm_normalise_tile", normalise_again}}};
  TrafficCase norm_backward{
      "batch_norm_backward", batch_norm_backward_def(), "tiles", {}, {{"batch_norm_sums_tile", sums_again}, {"batch_norm_slope_tile", slope_again}}};
  TrafficCase pool{"max_pool2d", max_pool2d_def(), "pixels", {}, {{"max_pool", pool_again}}};
  TrafficCase pool_gradient{"max_pool2d_gradient", max_pool2d_gradient_def(), "pixels", {}, {{"max_pool_gradient", pool_gradient_again}}};
  for (const auto& [side, channels] : Sizes{{8, 48}, {9, 16}, {7, 32}}) {
    const Spec x = f32({2, side, side, channels}), of_channels = f32({channels});
    norm.samples.push_back({{x, of_channels, of_channels, of_channels, of_channels, i64({})}, norm.op.samples()[0].attributes, norm.op.samples()[0].fills});
    norm_backward.samples.push_back({{x, x, of_channels, of_channels, of_channels}, {}, norm_backward.op.samples()[0].fills});
  }
  for (const auto& [side, channels] : Sizes{{8, 5}, {9, 7}, {14, 3}}) {  // in vectors of one channel: oclgrind does not count what vload reads
    const std::int64_t windows = (side - 1) / 2 + 1;
    const Spec x = f32({2, side, side, channels}), y = f32({2, windows, windows, channels});
    Attributes window{{"kernel", Axes{3, 3}}, {"stride", Axes{2, 2}}, {"padding", Axes{1, 1}}, {"ceil_mode", false}, {"dilation", Axes{1, 1}}};
    pool.samples.push_back({{x}, window});
    window.set("shape", x.shape);
    pool_gradient.samples.push_back({{y, {y.shape, DType::int32}}, window, {Fill{}, integers(0, 9)}});
  }
  return {norm, norm_backward, pool, pool_gradient};
}

std::vector<TrafficCase> attention_cases() {
  TrafficCase forward{"attention", attention_def(), "group_tiles", {}, {{"attention_tile", attention_again}}};
  TrafficCase backward{
      "attention_backward", attention_backward_def(), "group_tiles", {}, {{"attention_dquery_tile", dquery_again}, {"attention_dkey_tile", dkey_again}}};
  for (const auto& [queries, keys, width] : {std::tuple{6, 64, 32}, {64, 8, 16}, {4, 66, 16}}) {
    const Attributes a{{"scale", 0.125}, {"causal", false}, {"rate", 0.0}, {"stream", std::int64_t{0}}};
    const Spec query = f32({1, queries, 2, width}), key = f32({1, keys, 2, width}), bias = f32({1, 1, 1, 1}), statistic = f32({1, queries, 2});
    forward.samples.push_back({{query, key, key, bias}, a});
    backward.samples.push_back({{query, query, key, key, bias, query, statistic, statistic}, a});
  }
  return {forward, backward};
}

std::vector<TrafficCase> cases() {
  std::vector<TrafficCase> out = product_cases();
  for (const auto& more : {row_cases(), reduction_cases(), image_cases(), attention_cases()})
    for (const TrafficCase& c : more) out.push_back(c);
  return out;
}

}  // namespace
}  // namespace gemel::testing
