// Compressed tar archives made in memory, right and wrong.
#pragma once
#include <fmt/format.h>
#include <zlib.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

namespace gemel::testing {

/// A ustar header; `size` is what it claims, whatever follows.
inline std::string tar_header(std::string_view name, std::size_t size, char type = '0', std::string_view prefix = "") {
  std::string h(512, '\0');
  const auto put = [&](std::size_t offset, std::string_view text) { h.replace(offset, text.size(), text); };
  put(0, name);
  put(100, "0000644");
  put(124, fmt::format("{:011o}", size));
  put(148, "        ");
  h[156] = type;
  put(257, std::string_view("ustar\0"
                            "00",
                            8));
  put(345, prefix);
  unsigned sum = 0;
  for (const char c : h) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum));
  h[154] = '\0';
  return h;
}

/// The header, the content and its padding.
inline std::string tar_member(std::string_view name, std::string_view content, char type = '0', std::string_view prefix = "") {
  return tar_header(name, content.size(), type, prefix) + std::string(content) + std::string((512 - content.size() % 512) % 512, '\0');
}

/// One record of the attributes of the pax format.
inline std::string pax_record(std::string_view key, std::string_view value) {
  std::size_t length = key.size() + value.size() + 3;
  while (length != fmt::formatted_size("{} {}={}\n", length, key, value)) ++length;
  return fmt::format("{} {}={}\n", length, key, value);
}

inline std::string tar_end() { return std::string(1024, '\0'); }

inline std::string gzip(std::string_view text) {
  z_stream stream{};
  if (deflateInit2(&stream, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::runtime_error("deflateInit2");
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("deflate");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace gemel::testing
