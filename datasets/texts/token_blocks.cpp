#include "datasets/texts/token_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/files/git_lfs.h"
#include "engine/base/numbers.h"
#include "engine/base/philox.h"

namespace gemel::datasets {

TokenBlocks::TokenBlocks(TokenBlocksOptions options, std::vector<std::int32_t> tokens)
    : options_(std::move(options)), tokens_(std::move(tokens)), blocks_(ceil_div(std::ssize(tokens_) - 1, options_.length)) {}

void TokenBlocks::keep(std::int64_t samples) { blocks_ = std::min(blocks_, samples); }

std::vector<HostTensor> TokenBlocks::tensors(std::span<const std::int64_t> samples, const std::optional<Draws>&) const {
  constexpr std::int64_t kNoLabel = -1;
  const std::int64_t n = std::ssize(samples), length = options_.length;
  std::vector<std::int64_t> ids(at(n * length), 0), labels(at(n * length), kNoLabel);
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t begin = samples[at(j)] * length, count = std::min(length, std::ssize(tokens_) - 1 - begin);
    std::copy_n(tokens_.begin() + begin, count, ids.begin() + j * length);
    std::copy_n(tokens_.begin() + begin + 1, count, labels.begin() + j * length);
  }
  const Shape shape{n, length};
  return {host_tensor("ids", shape, std::span<const std::int64_t>(ids)), host_tensor("labels", shape, std::span<const std::int64_t>(labels))};
}

namespace {

std::unique_ptr<TokenBlocks> read(const std::filesystem::path& file, const Tokenizer& tokenizer, const RunningTextOptions& options) {
  const std::vector<std::byte> content = read_fetched(file);
  std::vector<std::int32_t> tokens;
  try {
    for (const std::int64_t id : tokenizer.encode(as_text(content))) tokens.push_back(narrow<std::int32_t>(id));
  } catch (const DataError& e) {
    throw DataError(fmt::format("text: {}: {}", file.string(), e.what()));
  }
  if (tokens.size() < 2) throw DataError(fmt::format("text: {} has {} tokens; accepted: two or more", file.string(), tokens.size()));
  auto out = std::make_unique<TokenBlocks>(TokenBlocksOptions{"text", tokenizer.vocabulary().size(), options.length}, std::move(tokens));
  if (options.limit > 0) out->keep(options.limit);
  return out;
}

std::unique_ptr<TokenBlocks> synthetic(const SyntheticTokensOptions& o, std::int64_t samples, std::uint32_t split) {
  constexpr std::int64_t kTokens = 1000;  // that are used of a vocabulary: few enough to meet each often
  constexpr std::int64_t kFactor = 7, kStep = 3;
  PhiloxStream draws(o.seed ^ std::uint64_t{split} << 32, stream_hash("synthetic tokens"));
  const std::int64_t used = std::min(o.vocabulary, kTokens);
  std::vector<std::int32_t> tokens{0};
  while (std::ssize(tokens) <= samples * o.length) {
    const bool follows = draws.below(4) > 0;
    const std::int64_t next = follows ? (tokens.back() * kFactor + kStep) % used : draws.below(narrow<std::uint32_t>(used));
    tokens.push_back(narrow<std::int32_t>(next));
  }
  return std::make_unique<TokenBlocks>(TokenBlocksOptions{"synthetic", o.vocabulary, o.length}, std::move(tokens));
}

}  // namespace

TokenBlockSplits open_running_text(const Tokenizer& tokenizer, const RunningTextOptions& options) {
  TokenBlockSplits out{read(options.folder / "train.txt", tokenizer, options), nullptr};
  if (const auto dev = options.folder / "dev.txt"; is_there(dev)) out.validation = read(dev, tokenizer, options);
  return out;
}

TokenBlockSplits synthetic_tokens(const SyntheticTokensOptions& options) {
  constexpr std::int64_t kValidation = 512;  // blocks
  return {synthetic(options, options.samples, 0), synthetic(options, std::min(kValidation, options.samples), 1)};
}

}  // namespace gemel::datasets
