// Kernels of elementwise operators, generated from the expressions in their records.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/core/op.h"

namespace gemel {

/// Returns the variants of every elementwise record: contiguous chunks for CPUs, one work-item an element for GPUs, and one for any broadcast.
std::vector<Variant> elementwise_variants();

/// Cost: one FLOP an element for each member of a chain; inputs are read and outputs written once.
Cost elementwise_cost(const Problem& problem);

/// OpenCL C text of a fused chain over x0, x1, ...: the statements, and the name of the last value.
struct ChainText {
  std::string title;  // "multiply+add+relu"
  std::string statements, result;
  std::vector<std::string> scalars;
};

/// Records that fusion makes for one program. Chains of equal structure share a record, and all kernels are built in one OpenCL program.
class ElementwiseLibrary {
 public:
  /// Returns the record of a chain. It lives as long as the library.
  const OpDef* record(const ChainText& chain, const Specs& in, const Spec& out);
  /// Returns the OpenCL program's name, a hash of its source.
  std::string title() const;
  std::string source() const;

 private:
  struct Entry {
    std::string key;
    Specs signature;
    DType out;
    std::vector<std::vector<bool>> forms;  // [form][input] true if constant along columns, for the problems that occur
    bool general = false;
    std::unique_ptr<OpDef> op;
  };
  std::vector<Entry> entries_;
  mutable std::string title_;  // set when the first kernel is requested
};

/// OpenCL C expressions (two_bytes.clh). widened: a loaded element in the type of computation. narrowed: a result in the stored type. rounded: a result as it
/// would be if it were stored and loaded again.
std::string widened(DType dtype, const std::string& element);
std::string narrowed(DType dtype, const std::string& result);
std::string rounded(DType dtype, const std::string& result);

/// A problem as layers x rows x columns. The output is dense; inputs are broadcast by their strides.
struct Folded {
  std::int64_t layers = 1, rows = 1, columns = 1;
  std::vector<std::int64_t> layer_stride, row_stride;  // [input], in elements; 0 if repeated
  std::vector<bool> column_constant;                   // [input] true: one value a row
  bool possible = true;                                // false if three axes do not suffice
};
Folded fold(const Specs& inputs, const Shape& output);

}  // namespace gemel
