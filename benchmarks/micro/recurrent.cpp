// gemel_recurrent: steps of an LSTM or a GRU layer, for comparison with another framework (benchmarks/peers/recurrent).
//
//   gemel_recurrent [--work train|infer] [--layer lstm|gru] [--frontend eager|graph] [--batch-size 32] [--steps 64] [--input 256] [--hidden 256]
//
// A step of training is forward, and backward from a given gradient of the output to the input and all parameters; one of inference is forward alone.
// After "ready" it answers each line `n` on standard input with a line of JSON, {"milliseconds": [...]} of n steps, each to the end of its last kernel.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/micro/benchmark_main.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/cli/options/common_options.h"
#include "frontends/graph/compile.h"
#include "frontends/nn/layers/rnn.h"

namespace gemel {
namespace {

std::unique_ptr<nn::Recurrent> layer_of(const cli::po::variables_map& v) {
  const std::int64_t input = cli::whole_number(v, "input", 1, 1e5), hidden = cli::whole_number(v, "hidden", 1, 1e5);
  const auto& layer = v["layer"].as<std::string>();
  check_choice("--layer", layer, {"lstm", "gru"});
  if (layer == "lstm") return std::make_unique<nn::LSTM>(input, hidden);
  return std::make_unique<nn::GRU>(input, hidden);
}

/// The gradients of x and of all parameters. @param in  x and the gradient of the output
Values trained(nn::Module& layer, const Values& in) {
  Values leaves{leaf(in[0])};
  for (const auto& p : layer.own_parameters()) leaves.push_back(p->tensor());
  return gradient({layer(Values{leaves[0]})[0]}, leaves, {in[1]});
}

Values inferred(nn::Module& layer, const Values& in) {
  const GradientMode off(in[0].session(), GradientMode::Mode::off);
  return list(layer(Values{in[0]})[0]);
}

int run(const std::vector<std::string>& arguments) {
  namespace po = cli::po;
  po::options_description options("options", 110);
  auto option = options.add_options();
  option("work", po::value<std::string>()->default_value("train"), "train or infer");
  option("layer", po::value<std::string>()->default_value("lstm"), "lstm or gru");
  option("batch-size", po::value<std::int64_t>()->default_value(32), "sequences");
  option("steps", po::value<std::int64_t>()->default_value(64), "of a sequence");
  option("input", po::value<std::int64_t>()->default_value(256), "numbers of a step");
  option("hidden", po::value<std::int64_t>()->default_value(256), "numbers of a state");
  cli::add_frontend_option(options);
  cli::add_device_options(options);
  const auto v = cli::parse("gemel_recurrent", "Steps of a recurrent layer.", options, arguments);
  const auto& work = v["work"].as<std::string>();
  check_choice("--work", work, {"train", "infer"});
  const bool eager = cli::frontend_option(v) == cli::Frontend::eager;
  Session session(opencl::Device::open(cli::device_options(v)));
  const auto layer = layer_of(v);
  layer->materialise(session);
  const std::int64_t batch = cli::whole_number(v, "batch-size", 1, 1e6), steps = cli::whole_number(v, "steps", 1, 1e6);
  const Values in{random_normal(session, {batch, steps, v["input"].as<std::int64_t>()}),
                  random_normal(session, {batch, steps, v["hidden"].as<std::int64_t>()})};
  const auto step = [&](const Values& given) { return work == "train" ? trained(*layer, given) : inferred(*layer, given); };
  graph::Compiled compiled = graph::compile(session, step);
  const auto once = [&] {
    const auto begin = std::chrono::steady_clock::now();
    const Values results = eager ? step(in) : compiled(in);
    session.device().finish();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  };
  once();
  fmt::print("ready\n");
  std::fflush(stdout);
  for (int count = 0; std::cin >> count;) {
    std::vector<double> times;
    for (int i = 0; i < count; ++i) times.push_back(once());
    fmt::print("{{\"milliseconds\": [{:.4f}]}}\n", fmt::join(times, ", "));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace gemel

int main(int count, char** values) { return gemel::benchmark_main("gemel_recurrent", gemel::run, count, values); }
