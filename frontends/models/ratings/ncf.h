// NeuMF: what a user thinks of an item, by a product of their factors (GMF) and by a perceptron over others (MLP), joined by a last layer. Names and layouts in
// files, and initial values, are those of the PyTorch port of X. He's code that is used most (class NCF: embed_user_GMF.weight, embed_item_GMF.weight,
// embed_user_MLP.weight, embed_item_MLP.weight, MLP_layers.1.weight and .bias, 4, 7 and so on, predict_layer.weight and .bias).
// Source: X. He et al., Neural collaborative filtering, 2017.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "frontends/nn/module.h"

namespace gemel::models {

/// Sizes under the names of the port's arguments.
struct NcfConfig {
  std::int64_t factor_num = 64;  // of a user and of an item in the product; the perceptron ends with as many
  std::int64_t num_layers = 3;   // of the perceptron: factor_num 2^num_layers, half of it, and so on to factor_num
  double dropout = 0;            // before each of them
};

/// What the table of users and the table of items hold.
struct NcfSizes {
  std::int64_t users, items;
};

/// "tiny", "mini", "small", "base": 8, 16, 32 and 64 factors, as in the paper; or what a config.json has in place of base's.
/// @throws UsageError for what is neither a name nor a file  @throws DataError for a file that is no configuration of an NCF, naming file and key
NcfConfig ncf_config(const std::string& name_or_file);

/// Inputs: users int64 [N, K] and items int64 [N, K]; gives logits [N, K] of their meeting.
/// @throws UsageError for no users or items, or sizes or a rate out of range
std::unique_ptr<nn::Module> ncf(const NcfConfig& config, const NcfSizes& sizes);

}  // namespace gemel::models
