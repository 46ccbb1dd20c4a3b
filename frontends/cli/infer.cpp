// gemel infer: a model's outputs for an array of pictures.
#include <fmt/format.h>

#include <algorithm>

#include "datasets/npy.h"
#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/ops/ops.h"
#include "frontends/cli/command.h"
#include "frontends/cli/model_options.h"
#include "frontends/cli/run_scope.h"
#include "frontends/train/inference.h"

namespace gemel::cli {
namespace {

/// [N, C, H, W] in the file, [N, H, W, C] on the device.
Value images_of(Session& session, const datasets::NpyFile& file, std::int64_t begin, std::int64_t count) {
  const Shape& s = file.shape();
  const Spec spec{Shape{count, s[1], s[2], s[3]}, DType::float32};
  const auto bytes = file.data().subspan(static_cast<std::size_t>(begin * s.product(1, 4) * 4), static_cast<std::size_t>(spec.bytes()));
  return transpose(session.tensor(spec, bytes), {0, 2, 3, 1});
}

void check_input(const datasets::NpyFile& file) {
  if (file.type() != datasets::NpyType::float32 || file.shape().rank() != 4)
    throw DataError(fmt::format("infer: {} holds {} {}; accepted: float32 [N, C, H, W]",
                                file.path().string(), to_string(file.type()), to_string(file.shape())));
}

struct Inputs {
  const datasets::NpyFile& file;
  std::int64_t batch_size;
};

void write_outputs(RunScope& run, nn::Module& model, Frontend frontend, const Inputs& inputs, const std::string& path) {
  const auto& [input, batch_size] = inputs;
  train::Inference inference(run.session(), model, frontend, run.options().passes);
  const auto output_of = [&](std::int64_t begin, std::int64_t count) { return inference({images_of(run.session(), input, begin, count)})[0]; };
  const std::int64_t n = input.shape()[0];
  // The first batch (of none, where there is no sample) tells the shape of the output.
  const Value first = output_of(0, std::min(batch_size, n));
  Shape shape{n};
  for (int k = 1; k < first.shape().rank(); ++k) shape.push_back(first.shape()[k]);
  datasets::write_npy(path, {shape, DType::float32}, [&](FileWriter& out) {
    out.write(read_bytes(first));
    for (std::int64_t begin = batch_size; begin < n; begin += batch_size) {
      run.begin_batch();
      out.write(read_bytes(output_of(begin, std::min(batch_size, n - begin))));
    }
  });
}

}  // namespace

int infer(const Arguments& arguments) {
  po::options_description options("options", 110);
  add_loaded_model_options(options);
  options.add_options()("input", po::value<std::string>()->required(), "x.npy: float32 [N, C, H, W]")
      ("output", po::value<std::string>()->required(), "y.npy: the model's output, float32")
      ("batch-size", po::value<std::int64_t>()->default_value(64), "samples at a time");
  add_frontend_option(options);
  add_common_options(options);
  const auto v = parse("infer", "Runs a model on an array of inputs.", options, arguments);
  const std::string name = model_name(v);
  const auto batch_size = whole_number(v, "batch-size", 1, 1e9);
  const Frontend frontend = frontend_option(v);
  RunScope run(common_options(v), "infer", arguments);
  return run.carry_out([&] {
    const datasets::NpyFile input(v["input"].as<std::string>());
    check_input(input);
    check_can_write(v["output"].as<std::string>());
    run.open_device();
    const auto model = load_model(v, run.session(), 0, input.shape()[1]);
    run.log_start(name, *model);
    write_outputs(run, *model, frontend, {input, batch_size}, v["output"].as<std::string>());
    run.summary()["samples"] = input.shape()[0];
  });
}

}  // namespace gemel::cli
