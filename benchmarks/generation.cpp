// gemel_generation: what a token of a language model takes, beside the time in which the memory gives its weights.
//
//   gemel_generation [--config base] [--prompt 32] [--tokens 64] [--frontend graph]
//
// GPT-2 of that size with random weights goes on from a prompt, one text at a time. Each token reads every weight once: all of them but the
// table of positions, of which one row is read; the table of tokens is the head's. The bandwidth is measured behind the tokens.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "benchmarks/benchmark_main.h"
#include "benchmarks/roofline.h"
#include "engine/base/clock.h"
#include "frontends/cli/common_options.h"
#include "frontends/train/generation.h"

namespace gemel {
namespace {

std::int64_t bytes_read_by_token(nn::Module& model) {
  std::int64_t bytes = 0;
  for (const NamedValue& p : model.parameters().parameters())
    if (p.name != "transformer.wpe.weight" && p.name != "lm_head.weight") bytes += p.value.spec().bytes();  // the head is the table of tokens
  return bytes;
}

/// Milliseconds of each token behind the prompt, sorted; those that build plans, for a cache of another size, are the last.
std::vector<double> token_times(train::TextReader& reader, std::int64_t prompt, std::int64_t tokens) {
  train::Sampler likeliest({});
  std::vector<std::int64_t> next(static_cast<std::size_t>(prompt));
  std::iota(next.begin(), next.end(), std::int64_t{100});
  std::vector<double> times;
  for (std::int64_t k = 0; k <= tokens; ++k) {
    const std::int64_t begin = steady_ns();
    next = {likeliest(reader.read(next))};
    if (k > 0) times.push_back(1e-6 * static_cast<double>(steady_ns() - begin));
  }
  std::ranges::sort(times);
  return times;
}

int run(const std::vector<std::string>& arguments) {
  namespace po = cli::po;
  po::options_description options("options", 110);
  options.add_options()
      ("config", po::value<std::string>()->default_value("base"), "of GPT-2: a name, or a config.json")
      ("prompt", po::value<std::int64_t>()->default_value(32), "tokens to go on from")
      ("tokens", po::value<std::int64_t>()->default_value(64), "that are made and timed");
  cli::add_frontend_option(options);
  cli::add_device_options(options);
  const auto v = cli::parse("gemel_generation", "What a token of a language model takes.", options, arguments);
  models::Gpt2 model(models::gpt2_config(v["config"].as<std::string>()));
  const auto positions = static_cast<double>(model.config().n_positions);
  const std::int64_t prompt = cli::whole_number(v, "prompt", 1, positions), tokens = cli::whole_number(v, "tokens", 1, positions);
  if (static_cast<double>(prompt + tokens) > positions)
    throw UsageError(fmt::format("--tokens: {} behind a prompt of {}; accepted: {} together, as many as there are positions", tokens, prompt, positions));
  const auto device = opencl::Device::open(cli::device_options(v));
  cli::say_device(device->profile());
  Session session(device);
  model.materialise(session);
  train::TextReader reader(session, model, cli::frontend_option(v));
  const std::vector<double> times = token_times(reader, prompt, tokens);
  const Roofline roofline = measure_roofline(session);
  const auto bytes = static_cast<double>(bytes_read_by_token(model));
  const double median = times[times.size() / 2], least = 1e3 * bytes / roofline.reads;
  fmt::print("{}\n", to_string(roofline));
  fmt::print("token: median {:.3f} ms ({:.3f} to {:.3f}, quartiles) of {}; weights: {:.1f} MB, {:.3f} ms of reading; ratio {:.2f}\n", median,
             times[times.size() / 4], times[times.size() * 3 / 4], tokens, 1e-6 * bytes, least, median / least);
  return 0;
}

}  // namespace
}  // namespace gemel

int main(int count, char** values) { return gemel::benchmark_main("gemel_generation", gemel::run, count, values); }
