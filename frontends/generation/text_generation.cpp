#include "frontends/generation/text_generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/ops/ops.h"

namespace gemel::train {
namespace {

constexpr std::int64_t kFirstCapacity = 64;
constexpr std::size_t kCache = 2;  // the first of its tensors among the model's inputs

Value whole_numbers(Session& session, const Shape& shape, std::span<const std::int64_t> numbers) {
  return session.tensor({shape, DType::int64}, std::as_bytes(numbers));
}

/// The first of the largest. @throws DataError where a logit is not finite
std::int64_t likeliest(std::span<const float> logits) {
  std::int64_t first = 0;
  for (std::int64_t i = 0; i < std::ssize(logits); ++i) {
    if (!std::isfinite(logits[at(i)])) throw DataError("sampling: a logit is not finite; accepted: weights that are");
    if (logits[at(i)] > logits[at(first)]) first = i;
  }
  return first;
}

}  // namespace

TextReader::TextReader(Session& session, models::Gpt2& model, Frontend frontend, PassNames passes)
    : session_(session),
      model_(model),
      frontend_(frontend),
      forward_([&session, &model](const Values& in) {
        const GradientMode no_gradients(session, GradientMode::Mode::off);
        return model(in);
      }),
      compiled_(session, forward_, std::move(passes)) {
  model.eval();
}

/// A longer cache begins with what the one before held.
void TextReader::make_room(std::int64_t length) {
  if (length <= capacity_) return;
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(length)));
  capacity_ = std::min(std::max(power, kFirstCapacity), model_.config().n_positions);
  const std::int64_t zero[] = {0};
  const Value start = whole_numbers(session_, {}, zero);
  const Specs specs = model_.cache(1, capacity_);
  inputs_.resize(kCache + specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Value before = std::exchange(inputs_[kCache + i], full(session_, specs[i], 0));
    if (before) write_rows(inputs_[kCache + i], start, before, 1);
  }
}

std::span<const float> TextReader::read(std::span<const std::int64_t> ids) {
  const std::int64_t count = std::ssize(ids), positions = model_.config().n_positions, tokens = model_.config().vocab_size;
  if (count < 1 || length_ + count > positions)
    throw UsageError(fmt::format("generation: {} tokens are to be read after {}; accepted: 1 or more, {} in all", count, length_, positions));
  for (const std::int64_t id : ids)
    if (id < 0 || id >= tokens) throw DataError(fmt::format("generation: there is no token {}; accepted: 0..{}", id, tokens - 1));
  make_room(length_ + count);
  std::vector<std::int64_t> places(at(count));
  std::iota(places.begin(), places.end(), length_);
  inputs_[0] = whole_numbers(session_, {1, count}, ids);
  inputs_[1] = whole_numbers(session_, {count}, places);
  read_floats(frontend_ == Frontend::graph ? compiled_(inputs_)[0] : forward_(inputs_)[0], logits_);
  length_ += count;
  return logits_;
}

Sampler::Sampler(const Sampling& sampling) : sampling_(sampling), draws_(sampling.seed, stream_hash("sampling")) {
  if (!(sampling.temperature >= 0) || std::isinf(sampling.temperature))
    throw UsageError(fmt::format("sampling: the temperature is {}; accepted: 0 or more", sampling.temperature));
  if (sampling.top_k < 0) throw UsageError(fmt::format("sampling: top_k is {}; accepted: 0 or more", sampling.top_k));
}

std::int64_t Sampler::operator()(std::span<const float> logits) {
  const std::int64_t first = likeliest(logits);
  if (sampling_.temperature == 0) return first;
  const auto likelier = [&](std::int64_t a, std::int64_t b) { return logits[at(a)] != logits[at(b)] ? logits[at(a)] > logits[at(b)] : a < b; };
  std::vector<std::int64_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  if (sampling_.top_k > 0 && sampling_.top_k < std::ssize(tokens)) {
    std::ranges::nth_element(tokens, tokens.begin() + sampling_.top_k, likelier);
    tokens.resize(at(sampling_.top_k));
    std::ranges::sort(tokens);  // an order that depends on no library
  }
  std::vector<double> below;  // [token] the sum of the weights up to it
  double sum = 0;
  for (const std::int64_t t : tokens) below.push_back(sum += std::exp((double{logits[at(t)]} - double{logits[at(first)]}) / sampling_.temperature));
  const auto drawn = std::ranges::upper_bound(below, draws_.uniform() * sum);
  return tokens[at(std::min(drawn - below.begin(), std::ssize(below) - 1))];
}

}  // namespace gemel::train
