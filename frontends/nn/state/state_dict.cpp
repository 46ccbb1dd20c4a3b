#include "frontends/nn/state/state_dict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "engine/base/dtype_conversion.h"
#include "engine/base/error.h"
#include "engine/device/host_contents.h"
#include "engine/files/weights.h"
#include "frontends/nn/state/file_layout.h"
#include "frontends/nn/state/wrapper_prefixes.h"

namespace gemel::nn {
namespace {

/// One entry of the state: a parameter or a buffer.
struct Slot {
  std::string name;
  std::string module;  // its path
  Spec memory;
  FileLayout layout = FileLayout::same;
  bool optional = false;
  Parameter* parameter = nullptr;
  Buffer* buffer = nullptr;

  Spec file() const { return {file_shape(memory.shape, layout), memory.dtype}; }
  const Value& tensor() const { return parameter ? parameter->tensor() : buffer->tensor(); }
  const Value& value() const { return parameter ? parameter->owner().value : buffer->value; }
};

std::vector<Slot> slots_of(const Module& module) {
  std::vector<Slot> slots;
  module.visit([&slots](const std::string& path, const Module& m) {
    for (const auto& p : m.own_parameters()) slots.push_back({join_path(path, p->name), path, p->spec, p->layout, p->tied_to != nullptr, p.get(), nullptr});
    for (const auto& b : m.own_buffers()) slots.push_back({join_path(path, b->name), path, b->spec, FileLayout::same, b->optional_in_files, nullptr, b.get()});
  });
  return slots;
}

/// A counter may have been converted with the weights that it stands beside.
bool converts(const NamedTensor& tensor, DType to) {
  const double most = to == DType::int64 ? 9e15 : std::numeric_limits<std::int32_t>::max();  // whole numbers that float64 and the type have
  const DType from = tensor.spec.dtype;
  if (from == to || (is_floating(from) && is_floating(to)) || (is_integer(from) && is_integer(to))) return true;
  return is_floating(from) && is_integer(to) &&
         std::ranges::all_of(numbers_from_bytes(from, tensor.data), [most](double x) { return std::abs(x) <= most && x == std::floor(x); });
}

void fill(const Slot& slot, Session& session, const NamedTensor& tensor) {
  std::vector<std::byte> converted;
  std::span<const std::byte> data = tensor.data;
  if (tensor.spec.dtype != slot.memory.dtype) {
    converted = bytes_from_numbers(slot.memory.dtype, numbers_from_bytes(tensor.spec.dtype, data));
    data = converted;
  }
  const std::vector<std::byte> bytes = from_file_layout(slot.memory, slot.layout, data);
  if (slot.value()) return write(slot.value(), bytes);
  Value made = session.tensor(slot.memory, std::span<const std::byte>(bytes));
  if (slot.parameter)
    slot.parameter->owner().bind(made);
  else
    slot.buffer->value = std::move(made);
}

/// What a module is to be given.
struct Given {
  std::span<const NamedTensor> tensors;
  std::span<const ForeignTensor> foreign;
};

/// The wrappers that all names begin with, as many as it takes until the module knows one of them; empty where that is none, or it never does.
std::string wrappers_of(const Module& module, const std::vector<Slot>& slots, const Given& given) {
  std::vector<std::string_view> names;
  for (const NamedTensor& t : given.tensors) names.push_back(t.name);
  for (const ForeignTensor& t : given.foreign) names.push_back(t.name);
  if (names.empty()) return {};
  const std::set<std::string_view> known = [&] {
    std::set<std::string_view> out;
    for (const Slot& s : slots) out.insert(s.name);
    return out;
  }();
  constexpr int kMost = 8;  // wrappers within each other
  const std::string_view first = names.front();
  std::size_t length = 0;
  for (int wrappers = 0; wrappers <= kMost; ++wrappers) {
    if (std::ranges::any_of(names, [&](std::string_view n) { return known.contains(module.name_of(std::string(n.substr(length)))); }))
      return std::string(first.substr(0, length));
    const std::size_t more = wrapper_of(first.substr(length));
    if (more == 0 || !std::ranges::all_of(names, [&](std::string_view n) { return n.starts_with(first.substr(0, length + more)); })) return {};
    length += more;
  }
  return {};
}

template <class Tensor>
std::vector<Tensor> without(std::size_t prefix, std::span<const Tensor> tensors) {
  std::vector<Tensor> out(tensors.begin(), tensors.end());
  for (Tensor& t : out) t.name.erase(0, prefix);
  return out;
}

/// What fits, and what does not, of tensors against a module.
struct Comparison {
  std::vector<std::pair<const Slot*, const NamedTensor*>> fitting;
  std::vector<const Slot*> misshapen, missing;
  std::vector<std::string> unexpected, wrong, left_aside;
  std::vector<std::string> torn;  // two names of one tensor, with other contents each
};

bool same_numbers(const NamedTensor& a, const NamedTensor& b) {
  if (a.spec.dtype == b.spec.dtype) return std::ranges::equal(a.data, b.data);
  return numbers_from_bytes(a.spec.dtype, a.data) == numbers_from_bytes(b.spec.dtype, b.data);
}

/// The names of tied parameters whose contents differ: of one tensor that is in a file twice.
std::vector<std::string> torn_in(const std::vector<std::pair<const Slot*, const NamedTensor*>>& fitting) {
  std::vector<std::string> out;
  std::map<const Parameter*, const NamedTensor*> first;
  for (const auto& [slot, tensor] : fitting) {
    if (!slot->parameter) continue;
    const auto [it, is_first] = first.emplace(&slot->parameter->owner(), tensor);
    if (!is_first && !same_numbers(*it->second, *tensor)) out.push_back(fmt::format("{} and {}", it->second->name, tensor->name));
  }
  return out;
}

/// Of tied parameters that the file has under another name than their own.
void forget_tied(std::vector<const Slot*>& missing, const std::vector<std::pair<const Slot*, const NamedTensor*>>& fitting) {
  std::set<const Parameter*> filled;
  for (const auto& [slot, tensor] : fitting)
    if (slot->parameter) filled.insert(&slot->parameter->owner());
  std::erase_if(missing, [&](const Slot* s) { return s->parameter && filled.contains(&s->parameter->owner()); });
}

Comparison compare(const Module& module, const std::vector<Slot>& slots, const Given& all) {
  struct Candidate {
    const NamedTensor* tensor;
    const ForeignTensor* foreign;  // one of the two
  };
  std::map<std::string, Candidate> given;
  Comparison c;
  const auto take = [&](const std::string& in_file, Candidate candidate) {
    const std::string name = module.name_of(in_file);
    if (name.empty())
      c.left_aside.push_back(in_file);
    else if (!given.emplace(name, candidate).second)
      c.unexpected.push_back(in_file);  // under two names
  };
  for (const NamedTensor& t : all.tensors) take(t.name, {&t, nullptr});
  for (const ForeignTensor& t : all.foreign) take(t.name, {nullptr, &t});
  for (const Slot& slot : slots) {
    const auto it = given.find(slot.name);
    if (it == given.end()) {
      if (!slot.optional) c.missing.push_back(&slot);
      continue;
    }
    const Spec expected = slot.file();
    const auto [tensor, foreign] = it->second;
    if (foreign || tensor->spec.shape != expected.shape || !converts(*tensor, expected.dtype)) {
      const std::string found = foreign ? fmt::format("{} {}", foreign->type, to_string(foreign->shape)) : to_string(tensor->spec);
      c.wrong.push_back(fmt::format("{} is {}, accepted: {}", slot.name, found, to_string(expected)));
      c.misshapen.push_back(&slot);
    } else {
      c.fitting.emplace_back(&slot, tensor);
    }
    given.erase(it);
  }
  c.torn = torn_in(c.fitting);
  forget_tied(c.missing, c.fitting);
  const auto note_left = [&](const std::string& in_file, const void* tensor) {
    const auto it = given.find(module.name_of(in_file));
    if (it != given.end() && (it->second.tensor == tensor || it->second.foreign == tensor)) c.unexpected.push_back(in_file);
  };
  for (const NamedTensor& t : all.tensors) note_left(t.name, &t);
  for (const ForeignTensor& t : all.foreign) note_left(t.name, &t);
  return c;
}

bool only_output_layers(const Comparison& c, const Module& module) {
  const auto outputs = module.output_layers();
  const auto is_output = [&](const Slot* s) { return std::ranges::find(outputs, s->module) != outputs.end(); };
  return c.unexpected.empty() && (c.missing.empty() || module.is_pretrained_without_output()) && std::ranges::all_of(c.missing, is_output) &&
         std::ranges::all_of(c.misshapen, is_output);
}

[[noreturn]] void refuse(const Comparison& c) {
  std::string text = fmt::format("state dict: {} names do not fit", c.missing.size() + c.unexpected.size() + c.wrong.size() + c.torn.size());
  std::vector<std::string> missing;
  for (const Slot* s : c.missing) missing.push_back(s->name);
  if (!missing.empty()) text += fmt::format("; missing: {}", fmt::join(missing, ", "));
  if (!c.unexpected.empty()) text += fmt::format("; unexpected: {}", fmt::join(c.unexpected, ", "));
  if (!c.wrong.empty()) text += fmt::format("; of another shape or type: {}", fmt::join(c.wrong, "; "));
  if (!c.torn.empty()) text += fmt::format("; with contents that differ, though the model has one tensor for both: {}", fmt::join(c.torn, "; "));
  throw DataError(text);
}

Loaded load(Module& module, Session& session, const Given& given, Mismatch mismatch, Extent extent) {
  const std::vector<Slot> slots = slots_of(module);
  const std::string prefix = wrappers_of(module, slots, given);
  const auto tensors = without(prefix.size(), given.tensors);
  const auto foreign = without(prefix.size(), given.foreign);
  const Comparison c = compare(module, slots, {tensors, foreign});
  const bool fits = c.missing.empty() && c.unexpected.empty() && c.wrong.empty();
  if (!c.torn.empty() || (!fits && !(mismatch == Mismatch::keep_output_layers && only_output_layers(c, module)))) refuse(c);
  for (const auto& [slot, tensor] : c.fitting)
    if (extent == Extent::whole || slot->value()) fill(*slot, session, *tensor);
  if (extent == Extent::whole) module.materialise(session);
  Loaded out{{}, c.left_aside, prefix};
  for (const auto* slots_left : {&c.misshapen, &c.missing})
    for (const Slot* slot : *slots_left) out.fresh.push_back(slot->name);
  return out;
}

}  // namespace

std::vector<NamedSpec> state_specs(const Module& module) {
  std::vector<NamedSpec> out;
  for (const Slot& slot : slots_of(module)) out.push_back({slot.name, slot.file()});
  return out;
}

std::vector<StateEntry> state_dict(const Module& module, Extent extent) {
  std::vector<Slot> slots = slots_of(module);
  if (extent == Extent::materialised) std::erase_if(slots, [](const Slot& s) { return !s.value(); });
  Values tensors;
  for (const Slot& slot : slots) tensors.push_back(slot.tensor());
  const HostContents contents(tensors);
  std::vector<StateEntry> out;
  for (std::size_t i = 0; i < slots.size(); ++i) out.push_back({slots[i].name, slots[i].file(), to_file_layout(slots[i].memory, slots[i].layout, contents[i])});
  return out;
}

Loaded load_state_dict(Module& module, Session& session, std::span<const NamedTensor> tensors, Mismatch mismatch, Extent extent) {
  return load(module, session, {tensors, {}}, mismatch, extent);
}

std::optional<std::int64_t> output_size_in(const Module& module, std::span<const NamedSpec> tensors) {
  const std::string name = join_path(module.output_layers().front(), "weight");
  for (const NamedSpec& t : tensors)
    if ((module.name_of(t.name) == name || module.name_of(std::string(without_wrappers(t.name))) == name) && !t.spec.shape.empty()) return t.spec.shape[0];
  return {};
}

void save_weights(const Module& module, const std::filesystem::path& path) { save_weights(state_dict(module), path); }

void save_weights(const std::vector<StateEntry>& state, const std::filesystem::path& path) {
  std::vector<NamedTensor> tensors;
  for (const StateEntry& e : state) tensors.push_back({e.name, e.spec, e.bytes});
  write_safetensors(path, tensors);
}

Loaded load_weights(Module& module, Session& session, const std::filesystem::path& path, Mismatch mismatch, Extent extent) {
  const WeightsFile file(path);
  if (file.has_metadata(kCheckpointField))
    throw DataError(path.string() + ": it is a checkpoint; accepted: weights, which its run writes at its end (train --resume CHECKPOINT --save WEIGHTS)");
  try {
    return load(module, session, {file.tensors(), file.foreign()}, mismatch, extent);
  } catch (const DataError& e) {
    throw DataError(path.string() + ": " + e.what());
  }
}

}  // namespace gemel::nn
