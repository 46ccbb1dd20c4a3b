// Epilogues: an elementwise operator that follows a product becomes a part of the product's kernel.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/op.h"

namespace gemel {

/// What an elementwise operator reads of one input for the element that it computes.
enum class Reach {
  product,  // the product's element itself
  element,  // the element of the same index
  column,   // one value for each column, that is, index of the last axis
  single    // one value for all
};
/// @param out  of the operator  @return nullopt for any other broadcast
std::optional<Reach> reach_of(const Shape& input, const Shape& out);

/// The record of `product` followed by `elementwise`, called "conv2d+add+relu". Its inputs are those of the product, then
/// those of the elementwise operator without the product's output; its attributes are the product's and the scalars.
/// Its kernels' text depends on nothing else than these arguments.
/// @param inputs  specs of all of the elementwise operator's inputs  @param reach  [input]
std::shared_ptr<const OpDef> epilogue_record(const OpDef& product, const OpDef& elementwise, const Specs& inputs, const std::vector<Reach>& reach);

}  // namespace gemel
