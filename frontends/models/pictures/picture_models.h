// Picture models by name, with torchvision's topologies, names, layouts and initialisation. Inputs are [N, H, W, C].
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/core/session.h"
#include "frontends/nn/module.h"

namespace gemel::models {

/// Parts that the backward pass recomputes instead of keeping: none, or each of the blocks that the model is a sequence of.
enum class RecomputedParts { none, blocks };

struct Options {
  std::int64_t classes = 1000;
  std::optional<double> dropout{};  // replaces the rate of every dropout; 0: no stochastic depth either
  std::int64_t channels = 3;        // of the input; torchvision's models take 3, lenet and perceptron 1 or 3
  RecomputedParts recompute = RecomputedParts::none;
};

/// Makes the backward pass recompute the model's repeated blocks.
void recompute_blocks(nn::Module& model);
/// Names that `make` accepts.
std::vector<std::string_view> names();
/// Tells if a model is a sequence of blocks, as RecomputedParts::blocks requires.
/// @throws UsageError for an unknown name
bool has_blocks(std::string_view name);
/// Names of models that are a sequence of blocks.
std::vector<std::string_view> names_with_blocks();
/// @throws UsageError if blocks are to be recomputed and the model has none
void check_recompute(std::string_view name, RecomputedParts recompute);
/// Returns the usual shape [C, H, W] of a model's pictures: 3x32x32 for lenet, 3x16x16 for perceptron, 3x299x299 for inception_v3, 3x224x224 for the others.
/// @throws UsageError for an unknown name
Shape usual_input(std::string_view name);
/// Returns a small shape [C, H, W] that a model can be trained on: 3x32x32 unless the model takes smaller ones or needs larger ones.
Shape small_input(std::string_view name);
/// Makes a model without memory: sizes and names are known; `materialise` or a loaded state gives it contents.
/// @throws UsageError for an unknown name (with the nearest one), no classes, channels that the model does not take, or RecomputedParts::blocks for a model
///   without blocks
std::unique_ptr<nn::Module> make(std::string_view name, const Options& options = {});
/// Makes a model with memory and initial contents in a session.
std::unique_ptr<nn::Module> make(std::string_view name, const Options& options, Session& session);

}  // namespace gemel::models
