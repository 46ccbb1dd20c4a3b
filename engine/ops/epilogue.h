// Epilogues: an elementwise operator after a product is computed by the product's kernel.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/op.h"

namespace gemel {

/// The element of an input that an elementwise operator reads for one output element.
enum class Reach {
  product,  // the output element of the product
  element,  // the element with the same index
  column,   // one value for each index of the last axis
  single    // one value for all
};
/// @param out  output shape of the operator  @return nullopt for any other broadcast
std::optional<Reach> reach_of(const Shape& input, const Shape& out);

/// Makes the record of `product` followed by `elementwise`, named for example "conv2d+add+relu". Its inputs are those of the product, then those of the
/// elementwise operator without the product's output; its attributes are the product's and the scalars. Its kernel text depends on these arguments alone.
/// @param inputs  specs of all inputs of the elementwise operator  @param reach  [input]
std::shared_ptr<const OpDef> epilogue_record(const OpDef& product, const OpDef& elementwise, const Specs& inputs, const std::vector<Reach>& reach);

}  // namespace gemel
