// gemel_loader: how many pictures a second one core delivers, shuffled and augmented, as float32 batches.
//
//   gemel_loader --dataset cifar10 --data DIR [--batch-size 64] [--augment standard] [--runs 5]
//
// A run is an epoch, made by the thread that asks: no worker helps. `train` makes batches ahead of the step in a thread of its own.
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <vector>

#include "benchmarks/micro/benchmark_main.h"
#include "datasets/loading/data_loader.h"
#include "frontends/cli/options/dataset_options.h"
#include "frontends/cli/run/bench_case.h"
#include "frontends/domains/pictures.h"

namespace gemel {
namespace {

double epoch_seconds(datasets::DataLoader& loader, std::int64_t epoch) {
  const auto begin = std::chrono::steady_clock::now();
  loader.start(epoch);
  while (loader.next()) {
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int run(const std::vector<std::string>& arguments) {
  namespace po = cli::po;
  po::options_description options("options");
  cli::add_dataset_options(options);
  auto option = options.add_options();
  option("classes", po::value<std::int64_t>()->default_value(0), "as the data set has them");
  option("batch-size", po::value<std::int64_t>()->default_value(64), "pictures at a time");
  option("augment", po::value<std::string>()->default_value("standard"), "none, or standard: pad 4, crop, flip");
  option("runs", po::value<std::int64_t>()->default_value(5), "epochs; the median counts");
  const auto v = cli::parse("gemel_loader", "Pictures a second that one core delivers.", options, arguments);
  const auto augment = v["augment"].as<std::string>();
  check_choice("--augment", augment, {"none", "standard"});
  const std::int64_t runs = cli::whole_number(v, "runs", 1, 1e6);
  const auto data = datasets::open_dataset(domains::picture_data(cli::run_options(v))).train;
  datasets::DataLoader loader(*data, {.batch_size = cli::whole_number(v, "batch-size", 1, 1e6),
                                      .augment = augment == "standard" ? datasets::Augment::standard : datasets::Augment::none,
                                      .workers = 0});
  std::vector<double> rates;
  epoch_seconds(loader, 0);  // reads the files
  for (std::int64_t i = 1; i <= runs; ++i) rates.push_back(static_cast<double>(data->size()) / epoch_seconds(loader, i));
  const cli::Spread rate = cli::spread_of(rates);
  fmt::print("{}, {} pictures, augment {}: {:.0f} pictures/s ({:.0f}..{:.0f}, {} epochs)\n", data->name(), data->size(), augment, rate.median, rate.min,
             rate.max, runs);
  return 0;
}

}  // namespace
}  // namespace gemel

int main(int count, char** values) { return gemel::benchmark_main("gemel_loader", gemel::run, count, values); }
