#include "frontends/study/peers/peer_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "datasets/formats/npy.h"
#include "datasets/texts/glue.h"
#include "datasets/texts/open_tokenizer.h"
#include "datasets/texts/synthetic_texts.h"
#include "engine/base/error.h"

namespace gemel::study {
namespace {

constexpr const char* kSynthetic = "synthetic";

datasets::TextSplits texts_of(const Json& spec, std::int64_t limit) {
  const auto longest = spec["max-length"].get<std::int64_t>();
  if (spec["dataset"] == kSynthetic) {
    datasets::TextSplits out = datasets::synthetic_texts({.classes = spec["classes"], .length = longest});
    if (limit > 0)
      for (const auto& split : {out.train.get(), out.validation.get()}) split->keep(limit);
    return out;
  }
  const auto letters = spec.value("cased", false) ? datasets::Letters::kept : datasets::Letters::lower;
  const auto tokenizer = datasets::open_tokenizer(spec["vocab"].get<std::string>(), letters);
  return datasets::open_glue(spec["dataset"].get<std::string>(), *tokenizer, {spec["data"].get<std::string>(), longest, limit});
}

void write(const datasets::Texts& texts, const std::filesystem::path& folder, const std::string& prefix) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(texts.size()));
  std::iota(all.begin(), all.end(), 0);
  for (const datasets::HostTensor& t : texts.tensors(all)) datasets::write_npy(folder / (prefix + t.name + ".npy"), t.spec, *t.bytes);
}

}  // namespace

bool takes_texts(const Json& spec) { return std::ranges::count(kTextModels, spec.value("model", "")) > 0; }

Json with_text_keys(Json spec) {
  if (spec.contains("dataset")) return spec;
  spec["dataset"] = kSynthetic;
  const std::string tokens = spec.value("input", "");
  if (tokens.empty() || tokens.find_first_not_of("0123456789") != tokens.npos)
    throw UsageError(fmt::format("{} with input '{}' has no peer; accepted: a number of tokens", spec.value("model", ""), tokens));
  spec["max-length"] = std::stoll(tokens);
  return spec;
}

void write_texts(const Json& spec, std::int64_t limit, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const datasets::TextSplits texts = texts_of(spec, limit);
  write(*texts.train, folder, "");
  write(*texts.validation, folder, "val_");
}

}  // namespace gemel::study
