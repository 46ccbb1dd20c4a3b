// Tasks of GLUE from their TSV files: SST-2, CoLA and MRPC. Lines end with LF, columns with a tab, and nothing is quoted.
// Source: A. Wang et al., GLUE: a multi-task benchmark and analysis platform for natural language understanding, 2018.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "datasets/texts/text_dataset.h"

namespace gemel::datasets {

struct GlueOptions {
  std::filesystem::path folder{};  // holds train.tsv and dev.tsv
  std::int64_t max_length = 128;   // most tokens of a sample, special tokens included
  std::int64_t limit = 0;          // most samples of each split, the first ones; 0: all
  RowLengths lengths = RowLengths::of_all;
};

/// "sst2", "cola", "mrpc"
std::span<const std::string_view> glue_names();
/// Reads and tokenizes both splits.
/// @throws UsageError for an unknown name
/// @throws DataError naming file and line for a wrong number of columns, an invalid label, or text that is not UTF-8 or has a NUL; naming the file if it is
///   missing or has no samples
TextSplits open_glue(std::string_view name, const Tokenizer& tokenizer, const GlueOptions& options);

}  // namespace gemel::datasets
