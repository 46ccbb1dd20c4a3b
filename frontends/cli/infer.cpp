#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "datasets/npy.h"
#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/ops/ops.h"
#include "frontends/cli/command.h"
#include "frontends/cli/common_options.h"
#include "frontends/cli/loaded_model.h"
#include "frontends/graph/compile.h"

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
    throw DataError(fmt::format("infer: {} holds {} {}; accepted: float32 [N, C, H, W]", file.path().string(), to_string(file.type()), to_string(file.shape())));
}

}  // namespace

int infer(const Arguments& arguments) {
  po::options_description options("options", 110);
  add_model_options(options);
  options.add_options()("input", po::value<std::string>()->required(), "x.npy: float32 [N, C, H, W]")
      ("output", po::value<std::string>()->required(), "y.npy: the model's output, float32")
      ("batch-size", po::value<std::int64_t>()->default_value(64), "samples at a time")
      ("frontend", po::value<std::string>()->default_value("eager"), "eager or graph");
  add_common_options(options);
  const auto v = parse("infer", "Runs a model on an array of inputs.", options, arguments);
  const CommonOptions common = common_options(v);
  const auto frontend = v["frontend"].as<std::string>();
  check_choice("--frontend", frontend, {"eager", "graph"});
  const auto batch_size = v["batch-size"].as<std::int64_t>();
  check_range("--batch-size", static_cast<double>(batch_size), 1, 1e9);
  const datasets::NpyFile input(v["input"].as<std::string>());
  check_input(input);
  check_can_write(v["output"].as<std::string>());
  const auto device = open_device(common);
  Session session(*device, common.seed);
  const auto model = load_model(v, session, 0, input.shape()[1]);
  const auto forward = [&](const Values& in) -> Values {
    const GradientMode no_gradients(session, GradientMode::Mode::off);
    return {(*model)(in[0])};
  };
  graph::Compiled compiled(session, forward, common.passes);
  const auto run = [&](std::int64_t begin, std::int64_t count) {
    const Values in{images_of(session, input, begin, count)};
    return (frontend == "graph" ? compiled(in) : forward(in))[0];
  };
  const std::int64_t n = input.shape()[0];
  // The first batch (of none, where there is no sample) tells the shape of the output.
  const Value first = run(0, std::min(batch_size, n));
  Shape shape{n};
  for (int k = 1; k < first.shape().rank(); ++k) shape.push_back(first.shape()[k]);
  datasets::write_npy(v["output"].as<std::string>(), {shape, DType::float32}, [&](FileWriter& out) {
    out.write(read_bytes(first));
    for (std::int64_t begin = batch_size; begin < n; begin += batch_size) out.write(read_bytes(run(begin, std::min(batch_size, n - begin))));
  });
  return 0;
}

}  // namespace gemel::cli
