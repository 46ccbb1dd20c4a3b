// gemel_generation: what a token of a language model takes, beside the time in which the memory gives its weights.
//
//   gemel_generation [--config base] [--prompt 32] [--tokens 64] [--frontend eager]
//
// GPT-2 of that size with random weights goes on from a prompt, one text at a time. Each token reads every weight once: all of them but the
// table of positions, of which one row is read; the table of tokens is the head's. Tokens and the reading of an array of memory take turns: a
// machine that others share gives more at one moment and less at another.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "benchmarks/micro/benchmark_main.h"
#include "engine/base/clock.h"
#include "frontends/cli/options/common_options.h"
#include "frontends/cli/run/roofline.h"
#include "frontends/generation/text_generation.h"

namespace gemel {
namespace {

std::int64_t bytes_read_by_token(nn::Module& model) {
  std::int64_t bytes = 0;
  for (const NamedValue& p : model.parameters().parameters())
    if (p.name != "transformer.wpe.weight" && p.name != "lm_head.weight") bytes += p.value.spec().bytes();  // the head is the table of tokens
  return bytes;
}

/// Sorted, in milliseconds.
struct Times {
  std::vector<double> tokens;    // behind the prompt; those that build plans, for a cache of another size, are the last
  std::vector<double> readings;  // of the array
};

Times measure(train::TextReader& reader, cli::ReadingAlone& reading, opencl::Device& device, std::int64_t prompt, std::int64_t tokens) {
  train::Sampler likeliest({});
  std::vector<std::int64_t> next(static_cast<std::size_t>(prompt));
  std::iota(next.begin(), next.end(), std::int64_t{100});
  Times times;
  const auto since = [](std::int64_t begin) { return 1e-6 * static_cast<double>(steady_ns() - begin); };
  for (std::int64_t k = 0; k <= tokens; ++k) {
    const std::int64_t token = steady_ns();
    next = {likeliest(reader.read(next))};
    if (k > 0) times.tokens.push_back(since(token));
    const std::int64_t array = steady_ns();
    reading.enqueue();
    device.finish();
    if (k > 0) times.readings.push_back(since(array));
  }
  std::ranges::sort(times.tokens);
  std::ranges::sort(times.readings);
  return times;
}

int run(const std::vector<std::string>& arguments) {
  namespace po = cli::po;
  po::options_description options("options", 110);
  auto option = options.add_options();
  option("config", po::value<std::string>()->default_value("base"), "of GPT-2: a name, or a config.json");
  option("prompt", po::value<std::int64_t>()->default_value(32), "tokens to go on from");
  option("tokens", po::value<std::int64_t>()->default_value(64), "that are made and timed");
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
  cli::ReadingAlone reading(session);
  const Times times = measure(reader, reading, *device, prompt, tokens);
  const auto quartile = [](const std::vector<double>& sorted, std::size_t quarter) { return sorted[sorted.size() * quarter / 4]; };
  const auto bytes = static_cast<double>(bytes_read_by_token(model)), array = static_cast<double>(reading.bytes());
  const auto rate = [&](std::size_t quarter) { return 1e-6 * array / quartile(times.readings, quarter); };
  const double token = quartile(times.tokens, 2), least = 1e-6 * bytes / rate(2);
  fmt::print("reading: median {:.1f} GB/s ({:.1f} to {:.1f}, quartiles), in turn with the tokens\n", rate(2), rate(3), rate(1));
  fmt::print("token: median {:.3f} ms ({:.3f} to {:.3f}, quartiles) of {}; weights: {:.1f} MB, {:.3f} ms of reading; ratio {:.2f}\n", token,
             quartile(times.tokens, 1), quartile(times.tokens, 3), tokens, 1e-6 * bytes, least, token / least);
  return 0;
}

}  // namespace
}  // namespace gemel

int main(int count, char** values) { return gemel::benchmark_main("gemel_generation", gemel::run, count, values); }
