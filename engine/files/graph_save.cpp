// Saving graphs: the program as JSON, its constants and variables as tensors.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/hash.h"
#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/device/host_contents.h"
#include "engine/files/graph_file.h"
#include "engine/files/graph_json.h"
#include "engine/files/safetensors.h"
#include "engine/ops/catalog.h"
#include "engine/parameters/parameter_slab.h"

namespace gemel {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Program& program);

Json json_of(const Program::Use& u) {
  Json out{{"slot", u.slot}, {"spec", to_string(u.spec)}};
  if (u.offset) out["offset"] = u.offset;
  if (u.version) out["version"] = u.version;
  if (u.tracked) out["tracked"] = true;
  return out;
}

Json json_of(const std::vector<Program::Use>& uses) {
  Json out = Json::array();
  for (const auto& u : uses) out.push_back(json_of(u));
  return out;
}

/// {"type": value}: JSON alone does not tell 1 from 1.0, and has no infinity.
Json json_of(const Attributes::Item& item) {
  struct Write {
    Json operator()(std::int64_t v) const { return v; }
    Json operator()(double v) const { return std::isfinite(v) ? Json(v) : Json(fmt::format("{}", v)); }
    Json operator()(bool v) const { return v; }
    Json operator()(const std::string& v) const { return v; }
    Json operator()(const std::vector<std::int64_t>& v) const { return v; }
    Json operator()(const Shape& v) const { return std::vector<std::int64_t>(v.begin(), v.end()); }
    Json operator()(DType v) const { return std::string(to_string(v)); }
    Json operator()(const std::shared_ptr<const Program>& v) const { return json_of(*v); }
    Json operator()(const std::shared_ptr<State>&) const { throw InternalError("graph file: an operator of the catalog has a State"); }
  };
  return Json{{std::string(to_string(type_of(item))), std::visit(Write{}, item)}};
}

Json json_of(const Program::Instruction& step, std::size_t i) {
  if (step.owner || find_op(step.op->name) != step.op)
    throw UsageError(
        fmt::format("graph file: instruction {}, {}, is not in the catalog; accepted: operators of the catalog, as before the passes", i, step.op->name));
  Json out{{"op", step.op->name}};
  if (!step.scope.empty()) out["scope"] = step.scope;
  for (const auto& [name, item] : step.attributes.entries()) out["attributes"][name] = json_of(item);
  out["inputs"] = json_of(step.inputs);
  out["outputs"] = json_of(step.outputs);
  if (!step.after.empty()) out["after"] = step.after;
  return out;
}

/// What the file says of a program's memory from outside, by slot.
struct FromOutside {
  std::vector<int> slab;    // the slot of the slab that it is a range of; -1 where the program does not know it
  std::vector<bool> saved;  // its contents: not of a range without a name that is only filled (a gradient), nor of a slab whose pages all
                            // belong to ranges that the program knows
};

FromOutside outside_of(const Program& program) {
  const auto& slots = program.slots;
  std::unordered_map<const Storage*, int> slot_of;
  for (std::size_t s = 0; s < slots.size(); ++s)
    if (slots[s].external) slot_of.try_emplace(slots[s].external.get(), static_cast<int>(s));
  std::vector<bool> read(slots.size(), false);
  for (const auto& u : program.outputs) read[at(u.slot)] = true;
  for (const auto& step : program.code)
    for (const auto& u : step.inputs) read[at(u.slot)] = true;
  FromOutside out{std::vector<int>(slots.size(), -1), std::vector<bool>(slots.size(), false)};
  std::vector<std::int64_t> known_pages(slots.size(), 0);
  for (std::size_t s = 0; s < slots.size(); ++s) {
    if (!slots[s].external) continue;
    const auto slab = slot_of.find(slots[s].external->whole.get());
    if (slab == slot_of.end()) continue;
    out.slab[s] = slab->second;
    known_pages[at(slab->second)] += Slab::pages_for(slots[s].spec);
  }
  for (std::size_t s = 0; s < slots.size(); ++s)
    if (const auto& external = slots[s].external)
      out.saved[s] = out.slab[s] >= 0 ? !slots[s].name.empty() || read[s] : known_pages[s] * Slab::kPageElements < external->elements;
  return out;
}

Json slots_of(const Program& program) {
  const FromOutside outside = outside_of(program);
  Json out = Json::array();
  for (std::size_t s = 0; s < program.slots.size(); ++s) {
    Json slot{{"bytes", program.slots[s].bytes}};
    if (!program.slots[s].name.empty()) slot["name"] = program.slots[s].name;
    if (const auto& external = program.slots[s].external) {
      if (outside.saved[s])
        slot["tensor"] = tensor_name(program, s);
      else
        slot["zeros"] = true;
      if (const int slab = outside.slab[s]; slab >= 0) slot.update({{"slab", slab}, {"page", external->first / Slab::kPageElements}});
    }
    out.push_back(std::move(slot));
  }
  return out;
}

Json json_of(const Program& program) {
  Json out{{"slots", slots_of(program)}, {"inputs", json_of(program.inputs)}, {"outputs", json_of(program.outputs)}};
  out["code"] = Json::array();
  for (std::size_t i = 0; i < program.code.size(); ++i) out["code"].push_back(json_of(program.code[i], i));
  return out;
}

/// An object of what is in a map. Its members are pushed, not looked up: an ordered object searches its keys one by one.
template <class Map, class Write>
Json object_of(const Map& map, const Write& write) {
  Json out = Json::object();
  for (const auto& [name, value] : map) out.get_ref<Json::object_t&>().emplace_back(name, write(value));
  return out;
}

Json json_of(const GraphNames& names) {
  const auto entries = [](const auto& settings) {
    Json out = Json::object();
    for (const auto& [key, item] : settings.entries()) out[key] = json_of(item);
    return out;
  };
  return {{"graph", names.graph},
          {"values", object_of(names.values, [](const Program::Use& use) { return json_of(use); })},
          {"operations", object_of(names.operations, [](const auto& instructions) { return Json(instructions); })},
          {"parameters", names.parameters},
          {"buffers", names.buffers},
          {"settings", object_of(names.settings, entries)}};
}

std::string lines(const Json& array) {
  std::string out;
  for (const Json& element : array) out += (out.empty() ? "\n  " : ",\n  ") + element.dump();
  return "[" + out + "]";
}

/// The spec of a slot's whole memory: that of the value by which it became known, or one axis where this is a part.
Spec whole_spec(const Program::Slot& slot) {
  return slot.spec.elements() == slot.external->elements ? slot.spec : Spec{Shape{slot.external->elements}, slot.spec.dtype};
}

/// @param checksum  of the tensors' file; empty: there is none
std::string text_of(const Program& program, const GraphNames& names, const std::string& checksum) {
  const Json json = json_of(program);
  const std::string named = names.values.empty() ? "" : ",\n\"names\": " + json_of(names).dump();
  const std::string structure = fmt::format("\"slots\": {},\n\"inputs\": {},\n\"outputs\": {},\n\"code\": {}{}}}\n", lines(json["slots"]),
                                            lines(json["inputs"]), lines(json["outputs"]), lines(json["code"]), named);
  const std::string saved = checksum.empty() ? "" : fmt::format("\"checksum\": \"{}\", \"structure\": \"{}\",\n", checksum, checksum_of_structure(structure));
  return fmt::format("{{\"format\": \"{}\", \"version\": {},\n{}{}", kGraphFormat, kGraphVersion, saved, structure);
}

/// Keeps the tensors that the graph's file was saved with until it is written anew. Where the file system has no links, a save that is cut
/// short leaves files that loading refuses.
void keep_last_tensors(const std::filesystem::path& graph) {
  if (is_saved_with_last_tensors(graph)) return;
  std::error_code none;
  std::filesystem::remove(last_tensors_beside(graph), none);
  std::filesystem::create_hard_link(std::filesystem::canonical(tensors_beside(graph), none), last_tensors_beside(graph), none);
}

}  // namespace

std::string checksum_of_structure(std::string_view json) {
  return fmt::format("{:016x}", hash_of(json.substr(std::min(json.find("\"slots\":"), json.size()))));
}

std::string to_json(const Program& program, const GraphNames& names) { return text_of(program, names, ""); }

void save_graph(const Program& program, const std::filesystem::path& path, const GraphNames& names) {
  Values externals;
  std::vector<NamedTensor> tensors;
  const std::vector<bool> saved = outside_of(program).saved;
  for (std::size_t s = 0; s < program.slots.size(); ++s)
    if (const auto& external = program.slots[s].external; external && saved[s]) {
      externals.emplace_back(whole_spec(program.slots[s]), external);
      tensors.push_back({tensor_name(program, s), externals.back().spec(), {}});
    }
  const HostContents contents(externals);
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].data = contents[i];
  const std::string text = text_of(program, names, checksum_of(tensors));
  keep_last_tensors(path);
  write_safetensors(tensors_beside(path), tensors);
  write_file_atomically(path, [&](FileWriter& file) { file.write(text); });
  std::error_code none;
  std::filesystem::remove(last_tensors_beside(path), none);
}

}  // namespace gemel
