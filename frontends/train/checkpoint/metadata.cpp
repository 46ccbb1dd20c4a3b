#include "frontends/train/checkpoint/metadata.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

#include "engine/base/error.h"
#include "frontends/nn/state/state_dict.h"

namespace gemel::train {
namespace {

constexpr std::int64_t kMost = 1'000'000'000'000'000;  // of anything that is counted

constexpr const char *kRun = "run", *kStep = "step", *kEpoch = "epoch", *kBatch = "batch", *kSamples = "samples", *kLossSum = "loss_sum", *kWeight = "weight",
                     *kCounts = "counts", *kOptimizerSteps = nn::kCheckpointField, *kParameterSteps = "parameter_steps";

std::string exact_text(double number) { return fmt::format("{:a}", number); }

class Reader {
 public:
  explicit Reader(const SafetensorsHeader& file) : file_(file) {}
  bool has(const char* key) const { return file_.metadata().contains(key); }

  std::int64_t whole(const char* key, std::int64_t least, std::int64_t most) const { return whole(key, text(key), least, most); }
  /// With spaces between them.
  std::vector<std::int64_t> wholes(const char* key, std::int64_t least, std::int64_t most) const {
    std::vector<std::int64_t> out;
    for (const std::string& word : words(key)) out.push_back(whole(key, word, least, most));
    return out;
  }
  double real(const char* key) const { return real(key, text(key)); }
  std::vector<double> reals(const char* key) const {
    std::vector<double> out;
    for (const std::string& word : words(key)) out.push_back(real(key, word));
    return out;
  }
  [[noreturn]] void refuse(const char* key, const std::string& accepted) const {
    throw DataError(fmt::format("checkpoint: {} has '{}' for '{}' in its metadata; accepted: {}", file_.path().string(), text(key), key, accepted));
  }

 private:
  const std::string& text(const char* key) const {
    const auto it = file_.metadata().find(key);
    if (it == file_.metadata().end())
      throw DataError(fmt::format("checkpoint: {} has no '{}' in its metadata; accepted: files that train wrote", file_.path().string(), key));
    return it->second;
  }
  std::vector<std::string> words(const char* key) const {
    const std::string& all = text(key);
    std::vector<std::string> out;
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t end = std::min(all.find(' ', at), all.size());
      out.push_back(all.substr(at, end - at));
      at = end + 1;
    }
    return out;
  }
  std::int64_t whole(const char* key, const std::string& word, std::int64_t least, std::int64_t most) const {
    std::int64_t value = 0;
    const char* const end = word.data() + word.size();
    const auto [rest, error] = std::from_chars(word.data(), end, value);
    if (error != std::errc() || rest != end || value < least || value > most) refuse(key, fmt::format("whole numbers, {}..{}", least, most));
    return value;
  }
  double real(const char* key, const std::string& word) const {
    char* rest = nullptr;
    const double value = std::strtod(word.c_str(), &rest);
    if (word.empty() || rest != word.c_str() + word.size() || !std::isfinite(value)) refuse(key, "finite numbers");
    return value;
  }

  const SafetensorsHeader& file_;
};

}  // namespace

FileMetadata metadata_of(const CheckpointNumbers& n) {
  std::vector<std::string> counts;
  for (double c : n.sums.counts) counts.push_back(exact_text(c));
  FileMetadata out{{kRun, std::to_string(n.run)},
                   {kStep, std::to_string(n.step)},
                   {kEpoch, std::to_string(n.epoch)},
                   {kBatch, std::to_string(n.batch)},
                   {kSamples, std::to_string(n.sums.samples)},
                   {kLossSum, exact_text(n.sums.loss)},
                   {kWeight, exact_text(n.sums.weight)},
                   {kCounts, fmt::format("{}", fmt::join(counts, " "))},
                   {kOptimizerSteps, std::to_string(n.optimizer_steps)}};
  if (!n.parameter_steps.empty()) out[kParameterSteps] = fmt::format("{}", fmt::join(n.parameter_steps, " "));
  return out;
}

CheckpointNumbers numbers_in(const SafetensorsHeader& file) {
  const Reader read(file);
  CheckpointNumbers n{
      .run = read.whole(kRun, 1, kMost), .step = read.whole(kStep, 0, kMost), .epoch = read.whole(kEpoch, 0, kMost), .batch = read.whole(kBatch, 0, kMost)};
  n.sums = {read.whole(kSamples, 0, kMost), read.real(kLossSum), read.real(kWeight), read.reals(kCounts)};
  if (n.sums.weight < 0) read.refuse(kWeight, "0 or more");
  n.optimizer_steps = read.whole(kOptimizerSteps, 0, kMost);  // more than `step` where a program had stepped before the run began
  if (read.has(kParameterSteps)) n.parameter_steps = read.wholes(kParameterSteps, 0, n.optimizer_steps);
  return n;
}

}  // namespace gemel::train
