#include "frontends/cli/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/base/span.h"
#include "engine/safetensors.h"
#include "frontends/nn/state_dict.h"

namespace gemel::cli {
namespace {

constexpr std::string_view kModel = "model.", kOptimizer = "optimizer.", kIdentity = "identity.";
constexpr int kKept = 2;

/// Step number in `checkpoint-STEP.safetensors`.
std::optional<std::int64_t> step_of(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  constexpr std::string_view before = "checkpoint-", behind = ".safetensors";
  if (name.rfind(before, 0) != 0 || name.size() <= before.size() + behind.size() || !name.ends_with(behind)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size() - behind.size();
  const auto [rest, error] = std::from_chars(name.data() + before.size(), end, step);
  return error == std::errc() && rest == end ? std::optional(step) : std::nullopt;
}

/// Newest first.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (step_of(entry.path())) out.push_back(entry.path());
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return *step_of(a) > *step_of(b); });
  return out;
}

FileMetadata metadata_of(const RunState& s, const optim::Optimizer& optimizer, const RunIdentity& identity) {
  FileMetadata out{{"step", std::to_string(s.step)},       {"epoch", std::to_string(s.epoch)},     {"batch", std::to_string(s.batch)},
                   {"loss_sum", fmt::format("{:a}", s.loss_sum)}, {"correct", std::to_string(s.correct)}, {"samples", std::to_string(s.samples)},
                   {"optimizer_steps", std::to_string(optimizer.steps())}};
  for (const auto& [name, value] : identity) out[std::string(kIdentity) + name] = value;
  return out;
}

std::int64_t integer_in(const SafetensorsFile& file, const std::string& key) {
  const auto it = file.metadata().find(key);
  std::int64_t value = 0;
  if (it == file.metadata().end() ||
      std::from_chars(it->second.data(), it->second.data() + it->second.size(), value).ptr != it->second.data() + it->second.size())
    throw DataError(fmt::format("checkpoint: {} has no whole number '{}' in its metadata; accepted: files that train wrote", file.path().string(), key));
  return value;
}

std::vector<NamedTensor> with_prefix(const SafetensorsFile& file, std::string_view prefix) {
  std::vector<NamedTensor> out;
  for (const NamedTensor& t : file.tensors())
    if (t.name.rfind(prefix, 0) == 0) out.push_back({t.name.substr(prefix.size()), t.spec, t.data});
  return out;
}

}  // namespace

std::string build_identity() {
  const MappedFile program("/proc/self/exe");
  std::uint64_t hash = 14695981039346656037ull;  // FNV-1a
  for (std::byte b : program.bytes()) hash = (hash ^ static_cast<std::uint8_t>(b)) * 1099511628211ull;
  return fmt::format("{:016x}", hash);
}

void save_checkpoint(const std::filesystem::path& folder, const nn::Module& model, const optim::Optimizer& optimizer,
                     const RunState& state, const RunIdentity& identity) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw DataError(fmt::format("checkpoint: cannot make the folder {}: {}", folder.string(), error.message()));
  const auto entries = nn::state_dict(model);
  std::vector<std::vector<std::byte>> slots;
  slots.reserve(optimizer.state().size());
  std::vector<NamedTensor> tensors;
  for (const auto& e : entries) tensors.push_back({std::string(kModel) + e.name, e.spec, e.bytes});
  for (const NamedValue& s : optimizer.state()) {
    slots.push_back(read_bytes(s.value));
    tensors.push_back({std::string(kOptimizer) + s.name, s.value.spec(), slots.back()});
  }
  write_safetensors(folder / fmt::format("checkpoint-{}.safetensors", state.step), tensors, metadata_of(state, optimizer, identity));
  const auto all = checkpoints_in(folder);
  for (std::size_t i = kKept; i < all.size(); ++i) std::filesystem::remove(all[i], error);
}

std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder) {
  for (const auto& file : checkpoints_in(folder)) {
    try {
      const SafetensorsFile opened(file);
      return file;
    } catch (const DataError& e) {
      fmt::print(stderr, "checkpoint: passed over: {}\n", e.what());
    }
  }
  return std::nullopt;
}

Restored load_checkpoint(const std::filesystem::path& path, nn::Module& model, optim::Optimizer& optimizer, Session& session,
                         const RunIdentity& identity) {
  const SafetensorsFile file(path);
  Restored out;
  out.state = {integer_in(file, "step"), integer_in(file, "epoch"), integer_in(file, "batch"), 0, integer_in(file, "correct"), integer_in(file, "samples")};
  if (const auto it = file.metadata().find("loss_sum"); it != file.metadata().end()) out.state.loss_sum = std::strtod(it->second.c_str(), nullptr);
  nn::load_state_dict(model, session, with_prefix(file, kModel));
  std::vector<NamedValue> slots;
  for (const NamedTensor& t : with_prefix(file, kOptimizer)) slots.push_back({t.name, session.tensor(t.spec, t.data)});
  optimizer.load_state(slots, integer_in(file, "optimizer_steps"));
  for (const auto& [name, now] : identity) {
    const auto it = file.metadata().find(std::string(kIdentity) + name);
    const std::string then = it == file.metadata().end() ? "unknown" : it->second;
    if (then != now) out.differences.push_back(fmt::format("{} was '{}', is now '{}'", name, then, now));
  }
  return out;
}

}  // namespace gemel::cli
