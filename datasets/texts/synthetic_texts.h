// Synthetic texts: random tokens with learnable labels. It is the data set "synthetic" for models that take texts.
#pragma once
#include <cstdint>

#include "datasets/texts/text_dataset.h"

namespace gemel::datasets {

struct SyntheticTextsOptions {
  std::int64_t vocabulary = 30522, padding = 0;  // tokens are 0..vocabulary-1
  std::int64_t classes = 2;
  std::int64_t length = 128;    // of the longest text; each has half of it or more
  std::int64_t samples = 2048;  // of the training split
  std::uint64_t seed = 1;
  RowLengths lengths = RowLengths::of_all;
};

/// Each text has a random class. A quarter of its tokens belong to that class alone; the others are any.
/// @throws UsageError for a vocabulary with fewer than two tokens a class, or a length below 2
TextSplits synthetic_texts(const SyntheticTextsOptions& options);

}  // namespace gemel::datasets
