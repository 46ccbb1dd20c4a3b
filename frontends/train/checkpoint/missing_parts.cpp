#include "frontends/train/checkpoint/missing_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>
#include <string>

#include "engine/base/error.h"

namespace gemel::train {
namespace {

constexpr const char *kMissing = "missing_parts", *kParts = "parts_of_batch";

std::vector<std::int64_t> numbers_in_text(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::int64_t> out;
  for (std::int64_t number = 0; in >> number;) out.push_back(number);
  if (!in.eof()) throw DataError(fmt::format("checkpoint: '{}' for '{}'; accepted: numbers with spaces between", text, kMissing));
  return out;
}

}  // namespace

void put_missing_parts(RanksState& state, const std::vector<std::int64_t>& missing, std::int64_t parts) {
  if (missing.empty()) return;
  state.texts[kMissing] = fmt::format("{}", fmt::join(missing, " "));
  state.texts[kParts] = std::to_string(parts);
}

std::vector<std::int64_t> missing_parts_in(const RanksState& state, std::int64_t parts) {
  const auto missing = state.texts.find(kMissing);
  if (missing == state.texts.end()) return {};
  const auto of = state.texts.find(kParts);
  const std::string saved = of == state.texts.end() ? "?" : of->second;
  if (parts == 0 || saved != std::to_string(parts))
    throw UsageError(
        fmt::format("resume: the checkpoint is of the middle of an epoch of which parts of batches are missing, {} to a batch, and this run has {}; accepted: "
                    "--parallel ps with as many parts, or a checkpoint of the end of an epoch",
                    saved, parts == 0 ? "whole batches" : fmt::format("{} to a batch", parts)));
  return numbers_in_text(missing->second);
}

}  // namespace gemel::train
