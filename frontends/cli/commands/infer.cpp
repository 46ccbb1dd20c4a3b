// gemel infer: a model's outputs for an array of pictures or tokens, for texts, or for sounds.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>

#include "datasets/formats/npy.h"
#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "frontends/cli/command.h"
#include "frontends/cli/options/ablation_options.h"
#include "frontends/cli/options/dataset_options.h"
#include "frontends/cli/options/model_options.h"
#include "frontends/cli/options/run_spec.h"
#include "frontends/cli/run/run_scope.h"
#include "frontends/domains/domain.h"
#include "frontends/nn/state/finite_check.h"
#include "frontends/nn/state/state_dict.h"
#include "frontends/train/inference.h"

namespace gemel::cli {
namespace {

/// The first byte that is false; none where there is none.
std::optional<std::int64_t> first_false(std::span<const std::byte> booleans) {
  const auto found = std::ranges::find(booleans, std::byte{0});
  return found == booleans.end() ? std::nullopt : std::optional(found - booleans.begin());
}

/// The model's output of some samples, once it was read.
struct Output {
  Spec spec;
  std::vector<std::byte> bytes;
};

/// @param out  [N, ...] of the samples from `begin` on  @throws Error naming the first of them that is not finite
Output finite_output(const domains::InferRequest& request, const Values& out, std::int64_t begin) {
  Output y{out[0].spec(), read_bytes(out[0])};
  const std::optional<std::int64_t> element = request.tells_finite ? first_false(read_bytes(out[1])) : nn::first_not_finite(y.spec.dtype, y.bytes);
  if (!element) return y;
  const Shape& told = out[request.tells_finite ? 1 : 0].shape();
  const std::int64_t sample = begin + *element * told[0] / told.elements();
  throw Error(fmt::format(
      "infer: the output of sample {} (from 0) is not finite; accepted: weights and samples of finite numbers that stay finite in the model", sample));
}

/// @param output  of the file; empty: none
void run_batches(RunScope& run, const domains::InferRequest& request, Frontend frontend, std::int64_t batch_size, const std::string& output) {
  train::Inference inference(run.session(), *request.model, frontend, run.options().passes);
  const std::int64_t n = request.inputs->count();
  const auto output_of = [&](std::int64_t begin) {
    const std::int64_t count = std::min(batch_size, n - begin);
    Values in = request.inputs->batch(run.session(), begin, count);
    if (!request.takes_types) in.resize(1);
    const Values out = inference(in);
    Output y = finite_output(request, out, begin);
    if (request.tell) request.tell(out, begin, count);
    return y;
  };
  // The first batch (of none, where there is no sample) tells the shape of the output.
  const Output first = output_of(0);
  const auto each = [&](const std::function<void(const Output&)>& take) {
    take(first);
    for (std::int64_t begin = batch_size; begin < n; begin += batch_size) {
      run.begin_batch();
      take(output_of(begin));
    }
  };
  if (output.empty()) return each([](const Output&) {});
  Shape shape{n};
  for (int k = 1; k < first.spec.shape.rank(); ++k) shape.push_back(first.spec.shape[k]);
  datasets::write_npy(output, {shape, first.spec.dtype}, [&](FileWriter& out) { each([&](const Output& y) { out.write(y.bytes); }); });
}

void check_given(const po::variables_map& v) {
  if (v.count("input") + v.count("text") != 1) throw UsageError("infer: accepted: --input or --text, one of them");
}

po::options_description infer_options() {
  po::options_description options("options", 110);
  add_loaded_model_options(options, ModelKinds::of_infer);
  auto option = options.add_options();
  option("input", po::value<std::string>(),
         "x.npy: float32 [N, C, H, W] of pictures, or int64 [N, T] of tokens; x.wav, or several with commas between: what was said is printed");
  option("text", po::value<std::vector<std::string>>(),
         "a text; may be given several times. Its class and the probability of it are printed, or its translation");
  option("output", po::value<std::string>()->default_value(""), "y.npy: the model's output, float32, or int64 of translations");
  option("batch-size", po::value<std::int64_t>()->default_value(64), "samples at a time");
  add_domain_options(options, domains::OptionUse::inputs);
  add_frontend_option(options);
  add_common_options(options);
  add_ablation_options(options);
  add_spec_options(options);
  return options;
}

}  // namespace

int infer(const Arguments& arguments) {
  const po::options_description options = infer_options();
  const auto v = parse("infer", "Runs a model on an array of inputs, on texts, or on sounds.", options, with_spec("infer", options, arguments));
  const domains::RunOptions of_run = run_options(v);
  const std::string& name = of_run.choice("model", domains::model_names(true));
  const auto batch_size = whole_number(v, "batch-size", 1, 1e9);
  const Frontend frontend = frontend_option(v);
  check_given(v);
  const CommonOptions common = common_options(v);
  const Json spec = spec_of("infer", options, v);
  print_if_asked(v, spec);
  RunScope run(common, "infer", arguments, {{"spec", spec}});
  return run.carry_out([&] {
    const auto output = v["output"].as<std::string>();
    if (!output.empty()) check_can_write(output);
    const domains::InferRequest request = domains::infer(of_run);
    if (!request.tell && output.empty()) throw UsageError("infer: --input is given without --output; accepted: with it");
    run.open_device();
    say_prefix(nn::load_weights(*request.model, run.session(), v["weights"].as<std::string>()));
    run.log_start(name, *request.model);
    run_batches(run, request, frontend, batch_size, output);
    run.summary()["samples"] = request.inputs->count();
  });
}

}  // namespace gemel::cli
