// Damage to files: what a mutator that knows no format does to their bytes.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace gemel::testing {

/// Changes a text of a corpus in one to four places: bits, bytes, numbers at their limits, pieces cut out, doubled, or taken from another text.
class Mutator {
 public:
  Mutator(std::vector<std::string> corpus, std::uint64_t seed) : corpus_(std::move(corpus)), random_(seed) {}
  std::string next();

 private:
  /// 0..below-1
  std::size_t draw(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }
  void change(std::string& text);
  void change_digits(std::string& text);

  std::vector<std::string> corpus_;
  std::mt19937_64 random_;
};

}  // namespace gemel::testing
