#include "frontends/models/ratings/ncf.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "engine/base/error.h"
#include "engine/ops/ops.h"
#include "frontends/models/blocks.h"
#include "frontends/models/config_file.h"

namespace gemel::models {
namespace {

constexpr std::array<NcfConfig, 4> kConfigs{{{.factor_num = 8}, {.factor_num = 16}, {.factor_num = 32}, {.factor_num = 64}}};
constexpr std::int64_t kHighestTower = 12;  // layers, each twice as wide as the next
constexpr double kTableDeviation = 0.01;    // of initial factors, the paper's

void check(const NcfConfig& c) {
  check_size("ncf", "factor_num", c.factor_num, kWidest);
  check_size("ncf", "num_layers", c.num_layers, kHighestTower);
  if (!(c.dropout >= 0 && c.dropout <= 1)) throw UsageError(fmt::format("ncf: dropout is {}; accepted: 0..1", c.dropout));
}

class NeuMF : public nn::Module {
 public:
  NeuMF(const NcfConfig& c, const NcfSizes& sizes)
      : user_factors_(add<nn::Embedding>("embed_user_GMF", sizes.users, c.factor_num)),
        item_factors_(add<nn::Embedding>("embed_item_GMF", sizes.items, c.factor_num)),
        user_features_(add<nn::Embedding>("embed_user_MLP", sizes.users, c.factor_num << (c.num_layers - 1))),
        item_features_(add<nn::Embedding>("embed_item_MLP", sizes.items, c.factor_num << (c.num_layers - 1))),
        tower_(add<nn::Sequential>("MLP_layers")),
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

NcfConfig ncf_config(const std::string& name_or_file) { return config_of("ncf", name_or_file, kConfigs, take, check); }

std::unique_ptr<nn::Module> ncf(const NcfConfig& config, const NcfSizes& sizes) {
  check(config);
  if (sizes.users < 1 || sizes.items < 1) throw UsageError(fmt::format("ncf: {} users and {} items; accepted: 1 or more of each", sizes.users, sizes.items));
  return std::make_unique<NeuMF>(config, sizes);
}

}  // namespace gemel::models
