#include "frontends/train/tasks/bleu.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <vector>

#include "frontends/train/tasks/split_words.h"

namespace gemel::train {
namespace {

using Words = std::vector<std::string_view>;

/// Runs of n words, and how often each is there.
std::map<Words, std::int64_t> runs_of(const Words& words, std::size_t n) {
  std::map<Words, std::int64_t> out;
  for (std::size_t begin = 0; begin + n <= words.size(); ++begin) {
    const auto run = std::span(words).subspan(begin, n);
    ++out[Words(run.begin(), run.end())];
  }
  return out;
}

}  // namespace

BleuCounts& BleuCounts::operator+=(const BleuCounts& more) {
  for (std::size_t n = 0; n < kLongest; ++n) {
    matches[n] += more.matches[n];
    runs[n] += more.runs[n];
  }
  hypothesis_words += more.hypothesis_words;
  reference_words += more.reference_words;
  return *this;
}

double BleuCounts::score() const {
  double logarithms = 0;
  for (std::size_t n = 0; n < kLongest; ++n) {
    if (matches[n] == 0) return 0;
    logarithms += std::log(static_cast<double>(matches[n]) / static_cast<double>(runs[n]));
  }
  const double too_short = std::min(0.0, 1 - static_cast<double>(reference_words) / static_cast<double>(hypothesis_words));
  return std::exp(logarithms / kLongest + too_short);
}

BleuCounts bleu_counts(std::string_view reference, std::string_view hypothesis) {
  const Words expected = words_of(reference), written = words_of(hypothesis);
  BleuCounts out;
  out.hypothesis_words = std::ssize(written);
  out.reference_words = std::ssize(expected);
  for (std::size_t n = 1; n <= BleuCounts::kLongest; ++n) {
    const std::map<Words, std::int64_t> there = runs_of(expected, n);
    for (const auto& [run, times] : runs_of(written, n)) {
      const auto found = there.find(run);
      if (found != there.end()) out.matches[n - 1] += std::min(times, found->second);
      out.runs[n - 1] += times;
    }
  }
  return out;
}

}  // namespace gemel::train
