#include "datasets/texts/synthetic_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/base/philox.h"

namespace gemel::datasets {
namespace {

constexpr std::int64_t kValidationTexts = 512;
constexpr std::int64_t kUsedTokens = 1000;  // that are used of a vocabulary: few enough to meet each often
constexpr std::uint32_t kTold = 4;          // one token of so many is of the class alone

/// Tokens of a class are those whose number leaves the class as the remainder by the number of classes.
std::unique_ptr<Texts> split_of(const SyntheticTextsOptions& o, std::int64_t samples, std::uint32_t split) {
  auto out = std::make_unique<Texts>(TextsOptions{"synthetic", o.classes, o.padding, o.lengths});
  PhiloxStream stream(o.seed ^ std::uint64_t{split} << 32, stream_hash("synthetic texts"));
  const std::int64_t used = std::min(o.vocabulary, kUsedTokens), of_class = used / o.classes;
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(stream.below(narrow<std::uint32_t>(n))); };
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::int64_t label = below(o.classes), length = i == 0 ? o.length : o.length / 2 + below(o.length - o.length / 2) + 1;
    Tokens tokens;
    for (std::int64_t t = 0; t < length; ++t) {
      std::int64_t id = stream.below(kTold) == 0 ? below(of_class) * o.classes + label : below(used);
      if (id == o.padding) id = (id + o.classes) % (of_class * o.classes);
      tokens.ids.push_back(id);
    }
    tokens.types.assign(at(length), 0);
    out->add(tokens, label);
  }
  return out;
}

}  // namespace

TextSplits synthetic_texts(const SyntheticTextsOptions& o) {
  if (std::min(o.vocabulary, kUsedTokens) < 2 * o.classes)
    throw UsageError(fmt::format("synthetic: {} classes of texts over {} tokens; accepted: two tokens a class or more, of the first {}", o.classes,
                                 o.vocabulary, kUsedTokens));
  if (o.length < 2) throw UsageError(fmt::format("synthetic: texts of {} token; accepted: 2 or more", o.length));
  return {split_of(o, o.samples, 0), split_of(o, kValidationTexts, 1)};
}

}  // namespace gemel::datasets
