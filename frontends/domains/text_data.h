// Options and data that all domains of texts share.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "datasets/texts/text_dataset.h"
#include "datasets/texts/tokenizer.h"
#include "frontends/domains/domain.h"
#include "frontends/models/texts/text_models.h"

namespace gemel::domains {

extern const OptionDef kVocabulary, kCased, kMaxLength;

/// Texts and the model that takes them.
struct TextData {
  std::string model, config = "base", dataset = kSynthetic;
  std::string folder, vocabulary;  // synthetic texts need neither
  bool cased = false, buckets = false;
  std::int64_t max_length = 128, limit = 0, classes = 0;
  const char* length_option = "--max-length";  // that max_length is given by
  std::int64_t samples = 2048;                 // of synthetic texts to train with
  std::uint64_t seed = 1;                      // that they are made by
  double label_smoothing = 0;
  nn::LstmComputation lstm = nn::LstmComputation::fused;

  datasets::RowLengths row_lengths() const { return buckets ? datasets::RowLengths::of_batch : datasets::RowLengths::of_all; }
  /// "bert-tiny"
  std::string title() const;
  std::unique_ptr<datasets::Tokenizer> tokenizer() const;
};

/// Data sets of files that a domain of texts reads.
struct TextFiles {
  std::vector<std::string> names;
  const char *files, *vocabulary;  // that they need, as messages say it
};

/// Names of the text models of a kind.
std::vector<std::string> models_of(models::TextKind kind);
bool has_text_blocks(const std::string& model);
/// [synthetic, names of files...]
std::vector<std::string> with_synthetic(const std::vector<std::string>& files);
/// @throws UsageError
TextData read_text_data(const RunOptions& options, const TextFiles& files);
/// Texts for each of --input's lengths; without it as many tokens as `resolved_length` says.
/// @throws UsageError
std::vector<TextData> made_up_texts(const RunOptions& options, std::int64_t samples);
std::vector<MadeUp> made_up_of(const std::vector<TextData>& data, std::unique_ptr<Workload> (*open)(const TextData&));
/// {"max-length": its default for the model, which is no more than it has positions}, or as given.
std::vector<std::pair<std::string, OptionValue>> resolved_length(const RunOptions& options);

/// Of `gemel infer`: --vocab, which must have as many tokens as the weights. @param beside  that it is needed with  @param accepted  as such
std::unique_ptr<datasets::Tokenizer> tokenizer_of(const RunOptions& options, const std::string& beside, const char* accepted, std::int64_t tokens);
/// Options of texts, where --input has tokens. @throws UsageError
void refuse_beside_tokens(const RunOptions& options, std::initializer_list<const char*> names);

}  // namespace gemel::domains
