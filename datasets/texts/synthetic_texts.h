// synthetic, for models that take texts: tokens without meaning, with labels that can be learnt.
#pragma once
#include <cstdint>

#include "datasets/texts/text_dataset.h"

namespace gemel::datasets {

struct SyntheticTextsOptions {
  std::int64_t vocabulary = 30522, padding = 0;  // tokens are 0..vocabulary-1
  std::int64_t classes = 2;
  std::int64_t length = 128;    // of the longest; a text has half of it or more
  std::int64_t samples = 2048;  // of the training split
  std::uint64_t seed = 1;
  RowLengths lengths = RowLengths::of_all;
};

/// Each text has a class drawn at random; a quarter of its tokens are one of those of its class alone, the others any.
/// @throws UsageError for a vocabulary that has no token for each class, or a length below 2
TextSplits synthetic_texts(const SyntheticTextsOptions& options);

}  // namespace gemel::datasets
