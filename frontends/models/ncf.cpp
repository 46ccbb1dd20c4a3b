#include "frontends/models/ncf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <utility>

#include "engine/base/error.h"
#include "engine/ops/ops.h"
#include "frontends/models/blocks.h"
#include "frontends/models/config_file.h"

namespace gemel::models {
namespace {

struct Named {
  std::string_view name;
  std::int64_t factors;
};
constexpr std::array<Named, 4> kConfigs{{{"tiny", 8}, {"mini", 16}, {"small", 32}, {"base", 64}}};
constexpr std::int64_t kMostFactors = 1 << 16, kMostLayers = 12;
constexpr double kTableDeviation = 0.01;  // of initial factors, the paper's

void check(const NcfConfig& c) {
  const auto size = [](const char* name, std::int64_t value, std::int64_t most) {
    if (value < 1 || value > most) throw UsageError(fmt::format("ncf: {} is {}; accepted: 1..{}", name, value, most));
  };
  size("factor_num", c.factor_num, kMostFactors);
  size("num_layers", c.num_layers, kMostLayers);
  if (!(c.dropout >= 0 && c.dropout <= 1)) throw UsageError(fmt::format("ncf: dropout is {}; accepted: 0..1", c.dropout));
}

class NeuMF : public nn::Module {
 public:
  NeuMF(const NcfConfig& c, const NcfSizes& sizes)
      : user_factors_(add<nn::Embedding>("embed_user_GMF", sizes.users, c.factor_num)), item_factors_(add<nn::Embedding>("embed_item_GMF", sizes.items, c.factor_num)),
        user_features_(add<nn::Embedding>("embed_user_MLP", sizes.users, c.factor_num << (c.num_layers - 1))),
        item_features_(add<nn::Embedding>("embed_item_MLP", sizes.items, c.factor_num << (c.num_layers - 1))), tower_(add<nn::Sequential>("MLP_layers")),
        predict_(add<nn::Linear>("predict_layer", 2 * c.factor_num, 1)) {
    for (std::int64_t in = c.factor_num << c.num_layers; in > c.factor_num; in /= 2) {
      tower_.emplace<nn::Dropout>(c.dropout);
      tower_.emplace<nn::Linear>(in, in / 2);
      tower_.emplace<nn::ReLU>();
    }
    start();
  }
  std::string describe() const override { return "NeuMF"; }

 protected:
  Values forward_values(Values in) override {
    if (in.size() != 2 || in[0].shape().rank() != 2 || in[1].shape() != in[0].shape()) throw ShapeError("ncf: accepted: users and items, int64 [N, K] each");
    const Value users = in[0], items = in[1];
    Value user = user_factors_(users), item = item_factors_(items);
    Value product = std::move(user) * std::move(item);
    user = user_features_(users);
    item = item_features_(items);
    Value features = tower_(concatenate({std::move(user), std::move(item)}, 2));
    return {reshape(predict_(concatenate({std::move(product), std::move(features)}, 2)), users.shape())};
  }

 private:
  void start() {
    visit_all<nn::Embedding>([](nn::Embedding& table) { table.start_normal(kTableDeviation); });
    visit_all<nn::Linear>([](nn::Linear& linear) {
      linear.weight().initialise = nn::uniform_within(nn::glorot_bound(linear.weight().spec.shape));
      linear.bias()->initialise = nn::constant(0);
    });
    // Y. LeCun's: inputs of variance 1 give an output of variance 1.
    predict_.weight().initialise = nn::uniform_within(std::sqrt(3.0 / static_cast<double>(predict_.weight().spec.shape[0])));
  }

  nn::Embedding &user_factors_, &item_factors_, &user_features_, &item_features_;
  nn::Sequential& tower_;
  nn::Linear& predict_;
};

void take(const ConfigFile& file, NcfConfig& c) {
  file.require("model_type", {"ncf"});
  file.take("factor_num", c.factor_num);
  file.take("num_layers", c.num_layers);
  file.take("dropout", c.dropout);
}

}  // namespace

std::vector<std::string_view> ncf_config_names() {
  std::vector<std::string_view> out;
  for (const Named& c : kConfigs) out.push_back(c.name);
  return out;
}

NcfConfig ncf_config(const std::string& name) {
  const auto found = std::ranges::find(kConfigs, name, &Named::name);
  if (found != kConfigs.end()) return {.factor_num = found->factors};
  if (std::filesystem::exists(name)) return read_config<NcfConfig>(name, take, check);
  throw UsageError(fmt::format("ncf: the configuration '{}' is neither known nor a file; accepted: {}, or a config.json", name, fmt::join(ncf_config_names(), ", ")));
}

std::unique_ptr<nn::Module> ncf(const NcfConfig& config, const NcfSizes& sizes) {
  check(config);
  if (sizes.users < 1 || sizes.items < 1) throw UsageError(fmt::format("ncf: {} users and {} items; accepted: 1 or more of each", sizes.users, sizes.items));
  return std::make_unique<NeuMF>(config, sizes);
}

}  // namespace gemel::models
