#include "frontends/cli/dataset_options.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "frontends/cli/model_options.h"

namespace gemel::cli {

void add_dataset_options(po::options_description& options) {
  const std::string names = fmt::format("data set: {}", fmt::join(datasets::dataset_names(), ", "));
  options.add_options()
      ("dataset", po::value<std::string>()->default_value("synthetic"), names.c_str())
      ("data", po::value<std::string>()->default_value(""), "its folder, or for cifar10 the official .tar.gz")
      ("input", po::value<std::string>()->default_value(""), "CxHxW of its pictures; synthetic makes 3x32x32, or less for a smaller model")
      ("normalize", po::value<std::string>()->default_value("none"), "none, or standard: by CIFAR-10's mean and deviation")
      ("limit", po::value<std::int64_t>()->default_value(0), "use only the first so many samples of each split; 0: all");
}

namespace {

/// What synthetic makes where --input is not given: empty, the data set's own pictures, but for a model that takes smaller ones.
Shape synthetic_input(const std::string& model) {
  const Shape usual = models::usual_input(model);
  return usual.elements() < Shape{3, 32, 32}.elements() ? usual : Shape();
}

}  // namespace

datasets::DatasetOptions dataset_options(const po::variables_map& v, std::uint64_t seed) {
  datasets::DatasetOptions o;
  o.name = v["dataset"].as<std::string>();
  const auto names = datasets::dataset_names();
  check_choice("--dataset", o.name, {names.begin(), names.end()});
  o.data = v["data"].as<std::string>();
  if (o.name == "synthetic" && !o.data.empty())
    throw UsageError(fmt::format("--data: '{}' is given with --dataset synthetic, which reads no files; accepted: --dataset {} with it",
                                 o.data.string(), fmt::join(names.begin() + 1, names.end(), " or ")));
  if (o.name != "synthetic" && o.data.empty())
    throw UsageError(fmt::format("--data: no data path was given for --dataset {}; accepted: the path of its files", o.name));
  if (const auto input = v["input"].as<std::string>(); !input.empty()) o.input = Shape(parse_extents("--input", input, 3));
  else if (o.name == "synthetic") o.input = synthetic_input(model_name(v));
  o.classes = class_count(v, 0);
  const auto normalize = v["normalize"].as<std::string>();
  check_choice("--normalize", normalize, {"none", "standard"});
  o.normalize = normalize == "standard" ? datasets::Normalize::standard : datasets::Normalize::none;
  o.limit = whole_number(v, "limit", 0, 1e12);
  o.seed = seed;
  return o;
}

}  // namespace gemel::cli
