// NeuMF: predicts a user's preference for an item from a product of their factors (GMF) and a perceptron over other factors (MLP), joined by a linear layer.
// Names, layouts and initial values are those of the most used PyTorch port of X. He's code (class NCF: embed_user_GMF.weight, embed_item_GMF.weight,
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
  std::int64_t factor_num = 64;  // of a user and of an item in the product; also the perceptron's last width
  std::int64_t num_layers = 3;   // of the perceptron, of widths factor_num 2^num_layers, half of it, and so on to factor_num
  double dropout = 0;            // before each layer
};

/// Numbers of rows in the tables of users and items.
struct NcfSizes {
  std::int64_t users, items;
};

/// Returns the configuration "tiny", "mini", "small" or "base" (8, 16, 32 and 64 factors, as in the paper), or reads a config.json over base's values.
/// @throws UsageError if it is neither a name nor a file  @throws DataError naming file and key if the file is not an NCF's configuration
NcfConfig ncf_config(const std::string& name_or_file);

/// Makes the model. Inputs: users int64 [N, K] and items int64 [N, K]. Returns logits [N, K] of their interaction.
/// @throws UsageError for no users or items, or sizes or a rate out of range
std::unique_ptr<nn::Module> ncf(const NcfConfig& config, const NcfSizes& sizes);

}  // namespace gemel::models
