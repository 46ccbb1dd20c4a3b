#include "frontends/train/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <functional>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/files/folder_lock.h"
#include "engine/device/host_contents.h"
#include "engine/files/safetensors.h"
#include "frontends/nn/state/finite_check.h"
#include "frontends/nn/state/state_dict.h"
#include "frontends/train/checkpoint/metadata.h"

namespace gemel::train {
namespace {

constexpr std::string_view kModel = "model.", kOptimizer = "optimizer.", kRanks = "ranks.";
constexpr const char* kChecksum = "checksum";

bool is_named_as_one(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  constexpr std::string_view before = "checkpoint-", behind = ".safetensors";
  if (!name.starts_with(before) || !name.ends_with(behind) || name.size() <= before.size() + behind.size()) return false;
  const std::string_view step = std::string_view(name).substr(before.size(), name.size() - before.size() - behind.size());
  return std::ranges::all_of(step, [](char c) { return c >= '0' && c <= '9'; });
}

struct Found {
  std::int64_t run, step;
  std::filesystem::path path;
  auto operator<=>(const Found&) const = default;
};

/// The newest last. @param tell  is told of those whose numbers cannot be read, and why
std::vector<Found> found_in(const std::filesystem::path& folder, const std::function<void(const DataError&)>& tell) {
  std::vector<Found> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (!is_named_as_one(entry.path())) continue;
    try {
      const CheckpointNumbers n = numbers_in(SafetensorsHeader(entry.path()));
      found.push_back({n.run, n.step, entry.path()});
    } catch (const DataError& e) {
      tell(e);
    }
  }
  std::ranges::sort(found);
  return found;
}

void tell_nobody(const DataError&) {}

/// Takes the file just written to the run's own, of which it and one more are kept.
void keep(CheckpointFolder& folder, const std::filesystem::path& written) {
  std::erase(folder.own, written);
  folder.own.push_back(written);
  std::error_code error;
  for (; folder.own.size() > 2; folder.own.erase(folder.own.begin())) std::filesystem::remove(folder.own.front(), error);
}

/// [parameter] its place in the model.
std::map<std::string, std::size_t> places_in(const nn::Module& model) {
  std::map<std::string, std::size_t> out;
  for (const NamedSpec& s : nn::state_specs(model)) out.emplace(s.name, out.size());
  return out;
}

/// The parameters that an optimizer of the whole model has, in the model's order whatever groups the optimizer has; the steps that moved each.
using ParameterSteps = std::vector<std::pair<std::string, std::int64_t>>;
ParameterSteps parameter_steps(const RunState& s, const nn::Module& model, const optim::Optimizer& optimizer) {
  ParameterSteps out;
  const std::vector<std::int64_t> own = optimizer.parameter_steps();
  for (std::size_t i = 0; i < own.size(); ++i) out.emplace_back(optimizer.parameters()[i].name, own[i]);
  out.insert(out.end(), s.ranks.parameter_steps.begin(), s.ranks.parameter_steps.end());
  const auto places = places_in(model);
  const auto place = [&](const auto& p) { return places.contains(p.first) ? places.at(p.first) : places.size(); };
  std::ranges::stable_sort(out, {}, place);
  return out;
}

FileMetadata metadata_of(const CheckpointFolder& folder, const RunState& s, const nn::Module& model, const optim::Optimizer& optimizer,
                         const RunIdentity& identity) {
  CheckpointNumbers numbers{folder.run, s.step, s.epoch, s.batch, s.sums, optimizer.steps()};
  std::vector<std::int64_t> steps;
  for (const auto& [name, n] : parameter_steps(s, model, optimizer)) steps.push_back(n);
  if (std::ranges::any_of(steps, [&](std::int64_t n) { return n != optimizer.steps(); })) numbers.parameter_steps = std::move(steps);
  FileMetadata out = metadata_of(numbers);
  for (const IdentityPart& part : identity) out[metadata_key(part)] = part.value;
  for (const auto& [name, text] : s.ranks.texts) out[std::string(kRanks) + name] = text;
  return out;
}

/// Of all that the file says, but for the checksum itself.
std::string checksum_without_itself(std::span<const NamedTensor> tensors, FileMetadata metadata) {
  metadata.erase(kChecksum);
  return checksum_of(tensors, metadata);
}

/// @throws DataError where the file is not one that train wrote, or not all of it is as it was written
SafetensorsFile open_whole(const std::filesystem::path& path) {
  SafetensorsFile file(path);
  numbers_in(file.header());
  const auto it = file.metadata().find(kChecksum);
  if (it == file.metadata().end() || it->second != checksum_without_itself(file.tensors(), file.metadata()))
    throw DataError(fmt::format("checkpoint: {}: its contents do not match its checksum; accepted: a file as it was written", path.string()));
  return file;
}

std::vector<NamedTensor> with_prefix(const SafetensorsFile& file, std::string_view prefix) {
  std::vector<NamedTensor> out;
  for (const NamedTensor& t : file.tensors())
    if (t.name.rfind(prefix, 0) == 0) out.push_back({t.name.substr(prefix.size()), t.spec, t.data});
  return out;
}

/// What other ranks hold of a model that this one holds a stage of.
class Elsewhere {
 public:
  explicit Elsewhere(const nn::Module& model) {
    model.visit([this](const std::string& path, const nn::Module& m) {
      for (const auto& p : m.own_parameters()) {
        if (!p->owner().value) names_.insert(nn::join_path(path, p->name));
        if (p->trainable && !p->tied_to) trained_.push_back(nn::join_path(path, p->name));
      }
      for (const auto& b : m.own_buffers())
        if (!b->value) names_.insert(nn::join_path(path, b->name));
    });
  }
  bool any() const { return !names_.empty(); }
  bool has(const std::string& name) const { return names_.contains(name); }
  /// @param steps  of all trained parameters in the model's order, or none  @return those of the optimizer's parameters, in its order
  /// @param all  where there are others, gets all of them by name
  std::vector<std::int64_t> of(const optim::Optimizer& optimizer, const std::vector<std::int64_t>& steps, std::map<std::string, std::int64_t>& all) const {
    if (steps.size() != trained_.size()) return steps;
    std::map<std::string, std::int64_t> by_name;
    for (std::size_t i = 0; i < steps.size(); ++i) by_name.emplace(trained_[i], steps[i]);
    std::vector<std::int64_t> mine;
    for (const NamedValue& p : optimizer.parameters())
      if (const auto it = by_name.find(p.name); it != by_name.end()) mine.push_back(it->second);
    if (any()) all = std::move(by_name);
    return mine;
  }

 private:
  std::set<std::string> names_;
  std::vector<std::string> trained_;
};

RanksState ranks_in(const SafetensorsFile& file) {
  RanksState out;
  for (const auto& [key, text] : file.metadata())
    if (key.starts_with(kRanks)) out.texts[key.substr(kRanks.size())] = text;
  for (const NamedTensor& t : with_prefix(file, kRanks)) out.tensors.push_back({t.name, t.spec, {t.data.begin(), t.data.end()}});
  return out;
}

}  // namespace

std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> out;
  for (Found& f : found_in(folder, tell_nobody)) out.push_back(std::move(f.path));
  return out;
}

FileMetadata metadata_to_resume(const std::string& from, const std::filesystem::path& folder) {
  const std::vector<std::filesystem::path> files = from == "auto" ? checkpoints_in(folder) : std::vector<std::filesystem::path>{from};
  if (files.empty()) return {};
  try {
    return SafetensorsHeader(files.back()).metadata();
  } catch (const DataError&) {
    return {};  // whoever loads it says what is wrong with it
  }
}

CheckpointFolder begin_in(const std::filesystem::path& folder) {
  const std::vector<Found> others = found_in(folder, tell_nobody);
  return {folder, others.empty() ? 1 : others.back().run + 1, {}};
}

CheckpointFolder go_on_in(const std::filesystem::path& folder, const std::filesystem::path& file) {
  const CheckpointNumbers at = numbers_in(SafetensorsHeader(file));
  CheckpointFolder out{folder, at.run, {}};
  const std::vector<Found> found = found_in(folder, tell_nobody);
  for (const bool is_later : {true, false})  // files later than the newest whole one are damaged: they are the first to be removed
    for (const Found& f : found)
      if (f.run == at.run && (f.step > at.step) == is_later) out.own.push_back(f.path);
  return out;
}

void prepare_checkpoints(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw DataError(fmt::format("checkpoint: cannot make the folder {}: {}", folder.string(), error.message()));
  check_can_write(folder / "checkpoint");
  FolderLock::require_free(folder, kCheckpoint);
}

std::filesystem::path save_checkpoint(CheckpointFolder& folder, const nn::Module& model, const optim::Optimizer& optimizer, const RunState& state,
                                      const RunIdentity& identity) {
  const auto entries = nn::state_dict(model, nn::Extent::materialised);
  const HostContents contents(values_of(optimizer.state()));
  std::vector<NamedTensor> weights, slots;
  for (const auto& e : entries) weights.push_back({e.name, e.spec, e.bytes});
  for (std::size_t i = 0; i < optimizer.state().size(); ++i) slots.push_back({optimizer.state()[i].name, optimizer.state()[i].value.spec(), contents[i]});
  if (!state.ranks.model.empty()) {
    for (const RanksState::Tensor& t : state.ranks.model) weights.push_back({t.name, t.spec, t.bytes});
    for (const RanksState::Tensor& t : state.ranks.slots) slots.push_back({t.name, t.spec, t.bytes});
    const auto places = places_in(model);
    std::ranges::stable_sort(weights, {}, [&](const NamedTensor& t) { return places.at(t.name); });
    std::ranges::stable_sort(slots, {}, [&](const NamedTensor& t) { return places.at(optim::parameter_of_slot(t.name)); });
  }
  if (!std::ranges::all_of(state.sums.counts, [](double c) { return std::isfinite(c); }))
    throw Error(
        fmt::format("checkpoint: the metrics' sums are not finite after step {}: nothing is saved; accepted: a task whose counts are finite", state.step));
  if (const auto wrong = nn::not_finite_in(weights))
    throw Error(fmt::format("checkpoint: {} after step {}: nothing is saved; accepted: weights that are finite", *wrong, state.step));
  std::vector<NamedTensor> tensors;
  for (const NamedTensor& t : weights) tensors.push_back({std::string(kModel) + t.name, t.spec, t.data});
  for (const NamedTensor& t : slots) tensors.push_back({std::string(kOptimizer) + t.name, t.spec, t.data});
  for (const RanksState::Tensor& t : state.ranks.tensors) tensors.push_back({std::string(kRanks) + t.name, t.spec, t.bytes});
  FileMetadata metadata = metadata_of(folder, state, model, optimizer, identity);
  metadata[kChecksum] = checksum_of(tensors, metadata);
  const auto path = folder.path / fmt::format("checkpoint-{}.safetensors", state.step);
  write_safetensors(path, tensors, metadata);
  keep(folder, path);
  return path;
}

std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder, const std::function<void(const std::string&)>& tell) {
  const auto pass_over = [&](const DataError& e) { tell(fmt::format("resume: passed over: {}", e.what())); };
  std::vector<Found> found = found_in(folder, pass_over);
  for (; !found.empty(); found.pop_back()) {
    try {
      open_whole(found.back().path);
      return found.back().path;
    } catch (const DataError& e) {
      pass_over(e);
    }
  }
  return std::nullopt;
}

Restored load_checkpoint(const std::filesystem::path& path, nn::Module& model, optim::Optimizer& optimizer, Session& session, const RunIdentity& identity) {
  const SafetensorsFile file = open_whole(path);
  Restored out;
  const CheckpointNumbers numbers = numbers_in(file.header());
  out.state = {numbers.step, numbers.epoch, numbers.batch, numbers.sums, ranks_in(file)};
  try {
    out.warnings = differences_from(file.metadata(), identity, out.state.batch > 0);
    nn::load_state_dict(model, session, with_prefix(file, kModel), nn::Mismatch::refuse, nn::Extent::materialised);
    const Elsewhere elsewhere(model);
    for (const NamedTensor& t : with_prefix(file, kModel))
      if (elsewhere.any()) out.state.ranks.model.push_back({t.name, t.spec, {t.data.begin(), t.data.end()}});
    std::vector<NamedValue> slots;
    for (const NamedTensor& t : with_prefix(file, kOptimizer)) {
      if (elsewhere.any()) out.state.ranks.slots.push_back({t.name, t.spec, {t.data.begin(), t.data.end()}});
      if (!elsewhere.has(optim::parameter_of_slot(t.name))) slots.push_back({t.name, session.tensor(t.spec, t.data)});
    }
    optimizer.load_state(slots, numbers.optimizer_steps, elsewhere.of(optimizer, numbers.parameter_steps, out.state.ranks.parameter_steps));
  } catch (const DataError& e) {
    const std::string why = path.string() + ": " + e.what();
    throw DataError(out.warnings.empty() ? why : fmt::format("{}; since it was written: {}", why, fmt::join(out.warnings, "; ")));
  }
  return out;
}

}  // namespace gemel::train
