#include "frontends/train/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/files/safetensors.h"
#include "engine/host_contents.h"
#include "frontends/nn/state_dict.h"

namespace gemel::train {
namespace {

constexpr std::string_view kModel = "model.", kOptimizer = "optimizer.", kRanks = "ranks.";
constexpr const char* kChecksum = "checksum";
constexpr const char* kParameterSteps = "parameter_steps";  // where they are not the same for all

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

/// Keeps the file just written, whatever the clock says, and one more.
void remove_older(const CheckpointFolder& folder, const std::filesystem::path& written) {
  auto others = checkpoints_in(folder.path);
  std::erase_if(others, [&](const auto& file) { return file == written || std::ranges::find(folder.of_others, file) != folder.of_others.end(); });
  std::error_code error;
  for (std::size_t i = 1; i < others.size(); ++i) std::filesystem::remove(others[i], error);
}

/// Comes back to the bit.
std::string exact_text(double number) { return fmt::format("{:a}", number); }

/// [parameter] its place in the model.
std::map<std::string, std::size_t> places_in(const nn::Module& model) {
  std::map<std::string, std::size_t> out;
  for (const nn::NamedSpec& s : nn::state_specs(model)) out.emplace(s.name, out.size());
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

FileMetadata metadata_of(const RunState& s, const nn::Module& model, const optim::Optimizer& optimizer, const RunIdentity& identity) {
  std::vector<std::string> counts;
  for (double c : s.sums.counts) counts.push_back(exact_text(c));
  FileMetadata out{{"step", std::to_string(s.step)},
                   {"epoch", std::to_string(s.epoch)},
                   {"batch", std::to_string(s.batch)},
                   {"samples", std::to_string(s.sums.samples)},
                   {"loss_sum", exact_text(s.sums.loss)},
                   {"weight", exact_text(s.sums.weight)},
                   {"counts", fmt::format("{}", fmt::join(counts, " "))},
                   {"optimizer_steps", std::to_string(optimizer.steps())}};
  std::vector<std::int64_t> steps;
  for (const auto& [name, n] : parameter_steps(s, model, optimizer)) steps.push_back(n);
  if (std::ranges::any_of(steps, [&](std::int64_t n) { return n != optimizer.steps(); })) out[kParameterSteps] = fmt::format("{}", fmt::join(steps, " "));
  for (const IdentityPart& part : identity) out[metadata_key(part)] = part.value;
  for (const auto& [name, text] : s.ranks.texts) out[std::string(kRanks) + name] = text;
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

/// Numbers with spaces between them.
std::vector<double> numbers_in(const SafetensorsFile& file, const std::string& key) {
  const auto it = file.metadata().find(key);
  if (it == file.metadata().end()) throw DataError(fmt::format("checkpoint: {} has no '{}' in its metadata; accepted: files that train wrote", file.path().string(), key));
  std::vector<double> out;
  for (const char *at = it->second.c_str(), *const end = at + it->second.size(); at < end;) {
    char* behind = nullptr;
    out.push_back(std::strtod(at, &behind));
    if (behind == at) throw DataError(fmt::format("checkpoint: {} has '{}' for '{}' in its metadata; accepted: numbers", file.path().string(), it->second, key));
    at = behind + (behind < end);
  }
  return out;
}
double number_in(const SafetensorsFile& file, const std::string& key) {
  const std::vector<double> numbers = numbers_in(file, key);
  return numbers.empty() ? 0 : numbers[0];
}

std::vector<std::int64_t> parameter_steps_in(const SafetensorsFile& file) {
  std::vector<std::int64_t> out;
  if (!file.metadata().contains(kParameterSteps)) return out;
  for (const double n : numbers_in(file, kParameterSteps)) out.push_back(static_cast<std::int64_t>(n));
  return out;
}

Sums sums_in(const SafetensorsFile& file) {
  return {integer_in(file, "samples"), number_in(file, "loss_sum"), number_in(file, "weight"), numbers_in(file, "counts")};
}

/// @throws DataError where the file is not one that train wrote, or not all of it is as it was written
SafetensorsFile open_whole(const std::filesystem::path& path) {
  SafetensorsFile file(path);
  for (const char* key : {"step", "epoch", "batch", "samples", "optimizer_steps"}) integer_in(file, key);
  sums_in(file);
  const auto it = file.metadata().find(kChecksum);
  if (it == file.metadata().end() || it->second != checksum_of(file.tensors()))
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
  std::vector<std::tuple<std::filesystem::file_time_type, std::int64_t, std::filesystem::path>> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (const auto step = step_of(entry.path())) found.emplace_back(entry.last_write_time(error), *step, entry.path());
  std::ranges::sort(found, std::greater());
  std::vector<std::filesystem::path> out;
  for (auto& [time, step, path] : found) out.push_back(std::move(path));
  return out;
}

void prepare_checkpoints(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw DataError(fmt::format("checkpoint: cannot make the folder {}: {}", folder.string(), error.message()));
  check_can_write(folder / "checkpoint");
}

std::filesystem::path save_checkpoint(const CheckpointFolder& folder, const nn::Module& model, const optim::Optimizer& optimizer,
                                      const RunState& state, const RunIdentity& identity) {
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
  std::vector<NamedTensor> tensors;
  for (const NamedTensor& t : weights) tensors.push_back({std::string(kModel) + t.name, t.spec, t.data});
  for (const NamedTensor& t : slots) tensors.push_back({std::string(kOptimizer) + t.name, t.spec, t.data});
  for (const RanksState::Tensor& t : state.ranks.tensors) tensors.push_back({std::string(kRanks) + t.name, t.spec, t.bytes});
  FileMetadata metadata = metadata_of(state, model, optimizer, identity);
  metadata[kChecksum] = checksum_of(tensors);
  const auto path = folder.path / fmt::format("checkpoint-{}.safetensors", state.step);
  write_safetensors(path, tensors, metadata);
  remove_older(folder, path);
  return path;
}

std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder, const std::function<void(const std::string&)>& tell) {
  for (const auto& file : checkpoints_in(folder)) {
    try {
      open_whole(file);
      return file;
    } catch (const DataError& e) {
      tell(fmt::format("resume: passed over: {}", e.what()));
    }
  }
  return std::nullopt;
}

Restored load_checkpoint(const std::filesystem::path& path, nn::Module& model, optim::Optimizer& optimizer, Session& session,
                         const RunIdentity& identity) {
  const SafetensorsFile file = open_whole(path);
  Restored out;
  out.state = {integer_in(file, "step"), integer_in(file, "epoch"), integer_in(file, "batch"), sums_in(file), ranks_in(file)};
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
    optimizer.load_state(slots, integer_in(file, "optimizer_steps"), elsewhere.of(optimizer, parameter_steps_in(file), out.state.ranks.parameter_steps));
  } catch (const DataError& e) {
    throw DataError(path.string() + ": " + e.what());
  }
  return out;
}

}  // namespace gemel::train
