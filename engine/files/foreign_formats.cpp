#include "engine/files/foreign_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "engine/base/files/git_lfs.h"

namespace gemel {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kLooked = 512;  // bytes from the beginning on
constexpr std::string_view kZip = "PK\3\4"sv;

/// Formats that only their names help with.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kNames{{{"\x89HDF\r\n\x1a\n"sv, "HDF5, as Keras and h5py write it"},
                                                                               {"GGUF"sv, "GGUF, as llama.cpp reads it"},
                                                                               {"\x1f\x8b"sv, "compressed by gzip"},
                                                                               {"\xfd"
                                                                                "7zXZ\0"sv,
                                                                                "compressed by xz"},
                                                                               {"\x28\xb5\x2f\xfd"sv, "compressed by zstd"},
                                                                               {"\x93NUMPY"sv, "one array of NumPy's"},
                                                                               {"<!"sv, "a web page, as a download leaves it that was refused"},
                                                                               {"<html"sv, "a web page, as a download leaves it that was refused"}}};

/// Pickles of protocol 2 and later begin with 0x80 and the protocol; PyTorch writes 2.
bool is_pickle(std::string_view begin) { return begin.size() > 2 && begin[0] == '\x80' && begin[1] >= 2 && begin[1] <= 5; }

/// The name of a zip file's first member. @param begin  of the file, with kZip
std::string_view first_member(std::string_view begin) {
  constexpr std::size_t kLengthAt = 26, kNameAt = 30;
  if (begin.size() < kNameAt) return {};
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(begin[i])); };
  return begin.substr(kNameAt, byte(kLengthAt) + 256 * byte(kLengthAt + 1));
}

/// Whether it stands in a line for a shell as it is, and in Python's quotes in that.
bool is_plain(std::string_view path) {
  return std::ranges::all_of(path, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || "/._-+=,@ "sv.find(c) != std::string_view::npos;
  });
}

std::string conversion_of(const std::filesystem::path& path) {
  const bool plain = is_plain(path.string());
  const std::string from = plain ? path.string() : "FILE",
                    to = (plain ? std::filesystem::path(path).replace_extension("safetensors") : "model.safetensors").string();
  return fmt::format(
      "python3 -c \"import torch, safetensors.torch as s; d = torch.load('{}', map_location='cpu', weights_only=True); "
      "s.save_file({{k: v.clone().contiguous() for k, v in d.get('state_dict', d).items()}}, '{}')\"",
      from, from == to ? to + ".new" : to);
}

std::string torchs(std::string_view kind, const std::filesystem::path& path) {
  return fmt::format("it is PyTorch's, {} of torch.save; accepted: safetensors, which this line makes of a state dict: {}", kind, conversion_of(path));
}

}  // namespace

std::optional<std::string> known_otherwise(const SteadyFile& file) {
  std::array<std::byte, kLooked> bytes{};
  const std::size_t count = std::min<std::size_t>(kLooked, static_cast<std::size_t>(file.bytes()));
  file.read(0, std::span(bytes).first(count));
  const std::string_view begin(reinterpret_cast<const char*>(bytes.data()), count);
  if (std::string pointer = git_lfs_pointer(begin); !pointer.empty()) return pointer;
  if (begin.starts_with(kZip)) {
    const std::string_view member = first_member(begin);
    if (member.ends_with("/data.pkl")) return torchs("a zip file", file.path());
    return member.ends_with(".npy") ? "it is a zip file of NumPy's arrays; accepted: safetensors" : "it is a zip file; accepted: safetensors";
  }
  if (is_pickle(begin)) return torchs("a pickle", file.path());
  if (begin.size() > 1 && begin[0] == '{' && begin[1] != '\0') return "it is JSON; accepted: safetensors";  // and no header of 123 bytes
  for (const auto& [first, name] : kNames)
    if (begin.starts_with(first)) return fmt::format("it is {}; accepted: safetensors", name);
  return {};
}

}  // namespace gemel
