#include "engine/files/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/files/git_lfs.h"
#include "engine/base/files/steady_file.h"
#include "engine/base/text/json_text.h"

namespace gemel {
namespace {

constexpr const char* kWhole = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

/// Tensors, and the file of each.
using WeightMap = std::map<std::string, std::string>;

/// The file that a path stands for.
std::filesystem::path file_at(const std::filesystem::path& path) {
  if (!is_folder(path)) return path;
  for (const char* name : {kWhole, kIndex})
    if (is_there(path / name)) return path / name;
  throw DataError(fmt::format("weights: {} has no {} and no {}; accepted: a folder that has, or a safetensors file", path.string(), kWhole, kIndex));
}

/// A safetensors file begins with the length of its header, which is below 2^56.
bool is_json(const std::filesystem::path& path) {
  constexpr std::int64_t kLengthBytes = 8;
  std::string begin(kLengthBytes, '\0');
  const SteadyFile file(path);
  if (file.bytes() < kLengthBytes) return false;
  file.read(0, std::as_writable_bytes(std::span(begin)));
  return begin.starts_with('{') && begin.back() != '\0';
}

WeightMap weight_map_in(const std::filesystem::path& index) {
  const auto fail = [&](const std::string& what) {
    throw DataError(
        fmt::format("weights: {}: {}; accepted: an object with a weight_map of tensors and the files in its folder that have them", index.string(), what));
  };
  const auto json = nlohmann::json::parse(as_text(read_fetched(index)), nullptr, false);
  if (!json.is_object()) fail("it is no JSON object");
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object() || map->empty()) fail("it has no weight_map");
  WeightMap out;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || file.get_ref<const std::string&>().empty() || std::filesystem::path(file.get<std::string>()).filename() != file.get<std::string>())
      fail(fmt::format("the file of '{}' is {}", tensor, message_text(file)));
    out.emplace(tensor, file.get<std::string>());
  }
  return out;
}

template <class Files>
bool any_has(const Files& files, const std::string& field) {
  return std::ranges::any_of(files, [&](const auto& file) { return file.metadata().contains(field); });
}

}  // namespace

WeightsHeader::WeightsHeader(const std::filesystem::path& path) {
  const std::filesystem::path file = file_at(path);
  if (!is_json(file)) {
    add(SafetensorsHeader(file, ForeignTensors::listed));
    return;
  }
  const WeightMap map = weight_map_in(file);
  std::map<std::string, std::vector<std::string_view>> names_of;  // [shard]
  for (const auto& [tensor, shard] : map) names_of[shard].push_back(tensor);
  std::map<std::string, std::string, std::less<>> found;  // [tensor] its shard
  for (const auto& [shard, names] : names_of) {
    SafetensorsHeader header(file.parent_path() / shard, ForeignTensors::listed);
    const auto take = [&, &in = shard](const std::string& name) {
      if (const auto [it, is_first] = found.emplace(name, in); !is_first)
        throw DataError(fmt::format("weights: {}: tensor '{}' is in {} and in {}; accepted: one shard for each", file.string(), name, it->second, in));
    };
    for (const NamedSpec& t : header.tensors()) take(t.name);
    for (const ForeignTensor& t : header.foreign()) take(t.name);
    for (const std::string_view name : names)
      if (const auto it = found.find(name); it == found.end() || it->second != shard)
        throw DataError(fmt::format("weights: {}: tensor '{}' is not in {}; accepted: an index of the shards beside it", file.string(), name, shard));
    add(std::move(header));
  }
}

void WeightsHeader::add(SafetensorsHeader file) {
  tensors_.insert(tensors_.end(), file.tensors().begin(), file.tensors().end());
  foreign_.insert(foreign_.end(), file.foreign().begin(), file.foreign().end());
  files_.push_back(std::move(file));
}

bool WeightsHeader::has_metadata(const std::string& field) const { return any_has(files_, field); }

WeightsFile::WeightsFile(WeightsHeader header) : foreign_(std::move(header.foreign_)) {
  for (SafetensorsHeader& file : header.files_) files_.emplace_back(std::move(file));
  for (const SafetensorsFile& file : files_) tensors_.insert(tensors_.end(), file.tensors().begin(), file.tensors().end());
}

bool WeightsFile::has_metadata(const std::string& field) const { return any_has(files_, field); }

}  // namespace gemel
