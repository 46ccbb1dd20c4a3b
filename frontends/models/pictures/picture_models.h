// The model zoo: torchvision's topologies, names, layouts and initialisation, by name. Inputs are [N, H, W, C].
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/core/session.h"
#include "frontends/nn/module.h"

namespace gemel::models {

/// What the backward pass computes again instead of keeping it: nothing, or each of the blocks that the model is a sequence of.
enum class RecomputedParts { none, blocks };

struct Options {
  std::int64_t classes = 1000;
  std::optional<double> dropout{};  // in place of every dropout's own rate
  std::int64_t channels = 3;        // of the input; torchvision's models take 3, lenet and perceptron 1 or 3
  RecomputedParts recompute = RecomputedParts::none;
};

/// The backward pass computes the model's repeated blocks again.
void recompute_blocks(nn::Module& model);
/// All names that `make` knows.
std::vector<std::string_view> names();
/// Whether a model is a sequence of blocks, as RecomputedParts::blocks needs. @throws UsageError for an unknown name
bool has_blocks(std::string_view name);
/// Those that are.
std::vector<std::string_view> names_with_blocks();
/// @throws UsageError where blocks are to be computed again and the model has none
void check_recompute(std::string_view name, RecomputedParts recompute);
/// [C, H, W] of the pictures that a model is usually given: 3x32x32 to lenet, 3x16x16 to perceptron, 3x299x299 to inception_v3, 3x224x224 to the others.
/// @throws UsageError for an unknown name
Shape usual_input(std::string_view name);
/// The same of small ones that it can be trained on: 3x32x32 where a model takes no smaller ones and needs no larger ones.
Shape small_input(std::string_view name);
/// A model without memory: sizes and names are known, `materialise` or a loaded state gives it contents.
/// @throws UsageError for an unknown name (with the nearest one), no classes, channels that the model does not take, or RecomputedParts::blocks without any
std::unique_ptr<nn::Module> make(std::string_view name, const Options& options = {});
/// The same with memory and initial contents in a session.
std::unique_ptr<nn::Module> make(std::string_view name, const Options& options, Session& session);

}  // namespace gemel::models
