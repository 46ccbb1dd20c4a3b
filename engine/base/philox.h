// Philox4x32-10, a counter-based random generator: equal bits on host and device in any order of evaluation.
// Source: J. K. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011.
#pragma once
#include <array>
#include <cstdint>

namespace gemel {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxCounter philox(PhiloxCounter c, PhiloxKey k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * c[0], b = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k[1],
         static_cast<std::uint32_t>(a)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

/// 24 random bits as a float in [0, 1).
constexpr float unit_float(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

/// Random state of a step: the first four numbers of the state tensor on the device. `fold` differs for each trip of a loop; it is 0 outside
/// of loops.
struct DrawState {
  std::int64_t seed, step, first_sample, fold;
};

/// Four random words: numbers 4 block .. 4 block + 3 of the sample at position `place` of the epoch. They do not depend on the position in
/// the batch, so any split of a batch draws the same numbers.
constexpr PhiloxCounter draw(const DrawState& state, std::uint32_t stream, std::int64_t place, std::int64_t block) {
  const auto low = [](std::int64_t v) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(v)); };
  const auto high = [](std::int64_t v) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(v) >> 32); };
  return philox({low(block), low(place), low(state.step), stream}, {low(state.seed) ^ high(state.fold), high(state.seed) ^ low(state.fold)});
}

/// Fold of trip `trip` (counted from 1) of a loop whose surroundings have fold `fold`.
/// Source: G. L. Steele et al., Fast splittable pseudorandom number generators, OOPSLA 2014 (SplitMix64).
constexpr std::uint64_t fold_hash(std::uint64_t fold, std::uint64_t trip) {
  std::uint64_t x = fold + trip * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// FNV-1a hash of a text, which identifies a stream of random numbers.
constexpr std::uint32_t stream_hash(const char* text, std::uint32_t hash = 2166136261u) {
  for (; *text; ++text) hash = (hash ^ static_cast<std::uint8_t>(*text)) * 16777619u;
  return hash;
}

/// Sequential random numbers on the host. One key; a counter numbers blocks of four words.
class PhiloxStream {
 public:
  PhiloxStream(std::uint64_t seed, std::uint64_t stream)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        stream_{static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)} {}
  std::uint32_t next() {
    if (used_ == 4) {
      block_ = philox({static_cast<std::uint32_t>(count_), static_cast<std::uint32_t>(count_ >> 32), stream_[0], stream_[1]}, key_);
      ++count_;
      used_ = 0;
    }
    return block_[used_++];
  }
  /// 53 random bits in [0, 1).
  double uniform() {
    const std::uint64_t high = next() >> 5, low = next() >> 6;
    return static_cast<double>((high << 26) | low) * 0x1p-53;
  }
  /// Uniform in 0..bound-1, without bias. @param bound  greater than 0
  std::uint32_t below(std::uint32_t bound) {
    const std::uint32_t threshold = (0u - bound) % bound;
    for (;;) {
      const std::uint64_t product = std::uint64_t{next()} * bound;
      if (static_cast<std::uint32_t>(product) >= threshold) return static_cast<std::uint32_t>(product >> 32);
    }
  }

 private:
  PhiloxKey key_;
  std::array<std::uint32_t, 2> stream_;
  std::uint64_t count_ = 0;
  PhiloxCounter block_{};
  std::size_t used_ = 4;
};

}  // namespace gemel
