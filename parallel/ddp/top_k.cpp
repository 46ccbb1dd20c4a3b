// Top-k compression: the largest gradients travel, the rest is added to the next step's.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/base/numbers.h"
#include "parallel/ddp/compression.h"

namespace gemel::parallel {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 22;  // elements that are selected from together: a few times the cache

struct Sent {
  std::uint32_t index;  // in the block
  float value;
};

/// Orders magnitudes as floats do, NaN above all.
std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu; }

/// Selects exactly k elements: a histogram of the magnitudes' leading bits finds those above a limit, and of those at the limit the largest
/// are taken.
class Largest {
 public:
  void select(std::span<const float> values, std::size_t k, std::vector<Sent>& out) {
    count_.assign(std::size_t{1} << kBits, 0);
    for (const float x : values) ++count_[magnitude(x) >> kShift];
    std::size_t above = 0;
    std::uint32_t limit = static_cast<std::uint32_t>(count_.size()) - 1;
    while (above + count_[limit] < k) above += count_[limit--];
    at_limit_.clear();
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      const std::uint32_t place = magnitude(values[i]) >> kShift;
      if (place > limit)
        out.push_back({i, values[i]});
      else if (place == limit)
        at_limit_.push_back({i, values[i]});
    }
    const auto end = at_limit_.begin() + static_cast<std::ptrdiff_t>(k - above);
    std::nth_element(at_limit_.begin(), end, at_limit_.end(), [](const Sent& a, const Sent& b) {
      return magnitude(a.value) != magnitude(b.value) ? magnitude(a.value) > magnitude(b.value) : a.index < b.index;
    });
    out.insert(out.end(), at_limit_.begin(), end);
  }

 private:
  static constexpr int kBits = 14, kShift = 31 - kBits;
  std::vector<std::size_t> count_;
  std::vector<Sent> at_limit_;
};

class TopK : public Compression {
 public:
  TopK(double fraction, std::span<const std::int64_t> slab_elements) : fraction_(fraction) {
    for (const std::int64_t n : slab_elements) residuals_.emplace_back(at(n), 0.0f);
  }

  void sum(Collectives& c, std::span<float> gradients, const SlabRange& where) override {
    const std::span<float> kept = residual(where);
    for (std::size_t begin = 0; begin < gradients.size(); begin += kBlock) {
      const std::size_t n = std::min(kBlock, gradients.size() - begin);
      sum_block(c, gradients.subspan(begin, n), kept.subspan(begin, n));
    }
  }
  std::span<float> residual(const SlabRange& where) override { return std::span(residuals_[where.slab]).subspan(at(where.begin), at(where.count)); }

 private:
  void sum_block(Collectives& c, std::span<float> gradients, std::span<float> kept) {
    for (std::size_t i = 0; i < gradients.size(); ++i) kept[i] += gradients[i];
    sent_.clear();
    largest_.select(kept, static_cast<std::size_t>(std::ceil(fraction_ * static_cast<double>(kept.size()))), sent_);
    for (const Sent& s : sent_) kept[s.index] = 0;
    std::ranges::fill(gradients, 0.0f);
    for (const std::vector<std::byte>& bytes : c.all_gather(std::as_bytes(std::span(sent_))))  // in the order of ranks: the same bits on all
      for (std::size_t i = 0; i < bytes.size(); i += sizeof(Sent)) {
        Sent s{};
        std::memcpy(&s, bytes.data() + i, sizeof s);
        gradients[s.index] += s.value;
      }
  }

  double fraction_;
  std::vector<std::vector<float>> residuals_;  // [slab]
  std::vector<Sent> sent_;
  Largest largest_;
};

}  // namespace

std::unique_ptr<Compression> make_top_k(double fraction, std::span<const std::int64_t> slab_elements) {
  return std::make_unique<TopK>(fraction, slab_elements);
}

}  // namespace gemel::parallel
