// safetensors files of any element type, as other programs write them.
#pragma once
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace gemel::testing {

struct RawTensor {
  std::string name, type;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

template <class T>
std::string raw_bytes(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

inline std::string raw_safetensors(const std::vector<RawTensor>& tensors, const nlohmann::json& metadata = {{"format", "pt"}}) {
  nlohmann::ordered_json header{{"__metadata__", metadata}};
  std::string data;
  for (const RawTensor& t : tensors) {
    header[t.name] = {{"dtype", t.type}, {"shape", t.shape}, {"data_offsets", {data.size(), data.size() + t.bytes.size()}}};
    data += t.bytes;
  }
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + text + data;
}

}  // namespace gemel::testing
