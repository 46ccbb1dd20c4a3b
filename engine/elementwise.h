// Elementwise operators: their kernels are made from the bodies in the records.
#pragma once
#include <string>
#include <vector>

#include "engine/op.h"

namespace gemel {

/// The variants of every elementwise record: contiguous chunks for CPUs, one item an element for GPUs, any broadcast.
std::vector<Variant> elementwise_variants();

/// One FLOP an element; reads the inputs, writes the outputs once.
Cost elementwise_cost(const Problem& problem);

/// Rows x columns, into which the broadcast of a problem's inputs folds. The output is dense.
struct Folded {
  std::int64_t rows = 1, columns = 1;
  std::vector<std::int64_t> row_stride;  // [input], in elements
  std::vector<bool> column_constant;     // [input]: one value a row
  bool possible = true;                  // false where no two axes suffice
};
Folded fold(const Specs& inputs, const Shape& output);

}  // namespace gemel
