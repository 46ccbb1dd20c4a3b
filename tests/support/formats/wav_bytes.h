// WAV files byte by byte, sound and broken ones.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace gemel::testing {

/// The lowest `bytes` bytes of a number.
inline std::string low(std::int64_t number, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(number >> (8 * i) & 0xFF);
  return out;
}

inline std::string chunk(const std::string& kind, const std::string& content) {
  return kind + low(std::ssize(content), 4) + content + std::string(content.size() % 2, '\0');
}
inline std::string riff(const std::string& chunks) { return "RIFF" + low(std::ssize(chunks) + 4, 4) + "WAVE" + chunks; }

struct Encoding {
  int tag = 1, channels = 1, bits = 16, rate = 16000, block = 0;  // block 0: as it should be
};
inline std::string format(const Encoding& e) {
  const int block = e.block ? e.block : e.channels * e.bits / 8;
  return chunk("fmt ", low(e.tag, 2) + low(e.channels, 2) + low(e.rate, 4) + low(e.rate * block, 4) + low(block, 2) + low(e.bits, 2));
}
inline std::string whole(const std::vector<std::int64_t>& numbers, int bytes) {
  std::string out;
  for (const std::int64_t x : numbers) out += low(x, bytes);
  return out;
}

}  // namespace gemel::testing
