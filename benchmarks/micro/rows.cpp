// gemel_rows: what an optimizer's step on the rows of an embedding takes, with the size of its table: the gradient of rows, and the dense one.
//
//   gemel_rows [--rows 64] [--width 64] [--tables 1000,100000] [--rounds 50]
//
// A line an optimizer, a form of the gradient and a table: the median time of a backward pass and an update, and its quartiles, from the first
// enqueue to the end of the last kernel. The tables are measured in turn, after a step of each to warm up.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/micro/benchmark_main.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/cli/options/common_options.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/optim/optimizer.h"

namespace gemel {
namespace {

/// Backward and update over rows of one table, from a forward pass that is not timed.
class RowStep {
 public:
  RowStep(Session& session, std::int64_t table, const Shape& looked_up, GradientForm form, std::string_view optimizer)
      : session_(session), table_(table, looked_up[1], std::nullopt, form) {
    table_.materialise(session);
    optimizer_ = optim::make(optimizer, optim::all_in_one(table_.parameters()));
    std::vector<double> words;
    for (std::int64_t k = 0; k < looked_up[0]; ++k) words.push_back(static_cast<double>(k * 7919 % table));
    words_ = session.tensor(i64({looked_up[0]}), std::span<const double>(words));
  }
  double seconds() {
    const Value loss = sum(table_(words_));
    session_.device().finish();
    const auto begin = std::chrono::steady_clock::now();
    optimizer_->step(gradient({loss}, values_of(optimizer_->parameters()), {}, {.into = optimizer_->gradient_places()}), 1e-3);
    session_.device().finish();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  Session& session_;
  nn::Embedding table_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Value words_;
};

/// Sorted times of each, after one to warm up.
std::vector<std::vector<double>> measured_in_turn(const std::vector<std::unique_ptr<RowStep>>& steps, std::int64_t rounds) {
  std::vector<std::vector<double>> times(steps.size());
  for (std::int64_t round = -1; round < rounds; ++round)
    for (std::size_t k = 0; k < steps.size(); ++k)
      if (const double seconds = steps[k]->seconds(); round >= 0) times[k].push_back(seconds);
  for (std::vector<double>& t : times) std::ranges::sort(t);
  return times;
}

int run(const std::vector<std::string>& arguments) {
  namespace po = cli::po;
  po::options_description options("options", 110);
  auto option = options.add_options();
  option("rows", po::value<std::int64_t>()->default_value(64), "looked up in a step");
  option("width", po::value<std::int64_t>()->default_value(64), "of a row");
  option("tables", po::value<std::string>()->default_value("1000,100000"), "rows of the tables");
  option("rounds", po::value<std::int64_t>()->default_value(50), "steps measured of each table");
  cli::add_device_options(options);
  const auto v = cli::parse("gemel_rows", "An optimizer's step on the rows of an embedding.", options, arguments);
  const auto device = opencl::Device::open(cli::device_options(v));
  cli::say_device(device->profile());
  Session session(device);
  const Shape looked_up{cli::whole_number(v, "rows", 1, 1e6), cli::whole_number(v, "width", 1, 1e4)};
  const std::int64_t rounds = cli::whole_number(v, "rounds", 1, 1e6);
  const std::vector<std::int64_t> tables = cli::whole_numbers(v, "tables", 1, 1e7);
  for (const char* optimizer : {"sgd", "adam"})
    for (const GradientForm form : {GradientForm::rows, GradientForm::dense}) {
      std::vector<std::unique_ptr<RowStep>> steps;
      for (const std::int64_t table : tables) steps.push_back(std::make_unique<RowStep>(session, table, looked_up, form, optimizer));
      for (std::size_t k = 0; const std::vector<double>& times : measured_in_turn(steps, rounds)) {
        const auto quarter = [&times](std::size_t q) { return 1e6 * times[q * (times.size() - 1) / 4]; };
        fmt::print("{:<4} {:<5} {:>8} rows: {:>9.1f} us ({:.1f} to {:.1f})\n", optimizer, form == GradientForm::rows ? "rows" : "dense", tables[k++],
                   quarter(2), quarter(1), quarter(3));
      }
    }
  return 0;
}

}  // namespace
}  // namespace gemel

int main(int count, char** values) { return gemel::benchmark_main("gemel_rows", gemel::run, count, values); }
