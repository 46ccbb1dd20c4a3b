// Elementwise operators: their kernels are made from the bodies in the records.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/core/op.h"

namespace gemel {

/// The variants of every elementwise record: contiguous chunks for CPUs, one item an element for GPUs, any broadcast.
std::vector<Variant> elementwise_variants();

/// One FLOP an element for each member of a chain; reads the inputs, writes the outputs once.
Cost elementwise_cost(const Problem& problem);

/// A fused chain in C text over x0, x1, ...: `statements`, and the name of the last value.
struct ChainText {
  std::string title;  // "multiply+add+relu"
  std::string statements, result;
  std::vector<std::string> scalars;
};

/// Records made for one program by fusion. Equal structures are one record; all kernels are built as one program.
class ElementwiseLibrary {
 public:
  /// It lives as long as the library.
  const OpDef* record(const ChainText& chain, const Specs& in, const Spec& out);
  /// Names the program: a hash of all its sources.
  std::string title() const;
  std::string source() const;

 private:
  struct Entry {
    std::string key;
    Specs signature;
    DType out;
    std::vector<std::vector<bool>> forms;  // which inputs are constant along columns, in the problems that occur
    bool general = false;
    std::unique_ptr<OpDef> op;
  };
  std::vector<Entry> entries_;
  mutable std::string title_;  // made when the first kernel is asked for
};

/// OpenCL C (two_bytes.clh): a loaded element in the type of computation; a result as it is stored; a result as it would be loaded again.
std::string widened(DType dtype, const std::string& element);
std::string narrowed(DType dtype, const std::string& result);
std::string rounded(DType dtype, const std::string& result);

/// Layers x rows x columns, into which the broadcast of a problem's inputs folds. The output is dense.
struct Folded {
  std::int64_t layers = 1, rows = 1, columns = 1;
  std::vector<std::int64_t> layer_stride, row_stride;  // [input], in elements; 0 where it repeats
  std::vector<bool> column_constant;                   // [input]: one value a row
  bool possible = true;                                // false where no three axes suffice
};
Folded fold(const Specs& inputs, const Shape& output);

}  // namespace gemel
