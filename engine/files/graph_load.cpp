// Loading graph files: the memory of variables, constants and slabs.
#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/files/git_lfs.h"
#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/files/graph_json.h"
#include "engine/files/safetensors.h"
#include "engine/ops/ops.h"
#include "engine/parameters/parameter_slab.h"

namespace gemel {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw DataError(what); }

ParsedGraph parsed_of(std::span<const std::byte> file) {
  ParsedGraph out = parse_graph(as_text(file));
  if (out.structure != checksum_of_structure(as_text(file))) refuse("its contents do not match its checksum");
  return out;
}

/// A file of tensors, if they are those that the checksum is of.
std::optional<SafetensorsFile> tensors_in(const std::filesystem::path& path, const std::string& checksum) {
  SafetensorsFile file(path);
  if (checksum_of(file.tensors()) != checksum) return std::nullopt;
  return file;
}

/// The tensors that a graph's file was saved with.
SafetensorsFile tensors_of(const std::filesystem::path& graph, const std::string& checksum) {
  auto found = tensors_in(tensors_beside(graph), checksum);
  if (!found && is_there(last_tensors_beside(graph))) found = tensors_in(last_tensors_beside(graph), checksum);
  if (!found) refuse(fmt::format("{} is not what was saved with it; accepted: both files of one save", tensors_beside(graph).string()));
  return std::move(*found);
}

void bind_tensors(Session& session, Program& program, const ParsedGraph& parsed, const std::filesystem::path& path) {
  const std::vector<std::string>& names = parsed.tensors;
  std::optional<SafetensorsFile> file;
  for (std::size_t s = 0; s < names.size(); ++s) {
    if (names[s].empty()) continue;
    if (!file) file.emplace(tensors_of(path, parsed.checksum));
    const NamedTensor* tensor = file->find(names[s]);
    if (!tensor) refuse(fmt::format("tensor '{}' is not in {}", names[s], file->path().string()));
    const auto check = [&](const std::vector<Program::Use>& uses) {
      for (const auto& u : uses)
        if (at(u.slot) == s && u.spec.dtype != tensor->spec.dtype)
          refuse(fmt::format("tensor '{}' is {}, used as {}", names[s], to_string(tensor->spec), to_string(u.spec)));
    };
    for (const auto& step : program.code) check(step.inputs);
    check(program.outputs);
    program.slots[s].external = session.tensor(tensor->spec, tensor->data).storage();
    program.slots[s].bytes = tensor->spec.bytes();
    program.slots[s].spec = tensor->spec;
  }
}

/// The spec by which a slot's memory is used first, as one axis.
Spec flat_spec(const Program& program, std::size_t s) {
  const std::int64_t elements = program.slots[s].bytes / std::int64_t{sizeof(float)};
  const auto check = [&](const std::vector<Program::Use>& uses) {
    for (const auto& u : uses)
      if (at(u.slot) == s && u.spec.dtype != DType::float32) refuse(fmt::format("slot {} begins as zeros and is used as {}", s, to_string(u.spec)));
  };
  for (const auto& step : program.code) check(step.inputs), check(step.outputs);
  return f32({elements});
}

void make_zeros(Session& session, Program& program, const std::vector<ParsedGraph::Outside>& memory) {
  for (std::size_t s = 0; s < memory.size(); ++s) {
    if (!memory[s].zeros || memory[s].slab >= 0) continue;
    const Spec spec = flat_spec(program, s);
    program.slots[s].external = full(session, spec, 0).storage();
    program.slots[s].spec = spec;
  }
}

/// Moves ranges into the slabs that they are of.
void join_slabs(Session& session, Program& program, const std::vector<ParsedGraph::Outside>& memory) {
  for (std::size_t s = 0; s < memory.size(); ++s) {
    const auto [zeros, slab, page] = memory[s];
    if (slab < 0) continue;
    if (at(slab) >= memory.size() || memory[at(slab)].slab >= 0 || !program.slots[at(slab)].external)
      refuse(fmt::format("slot {} is a range of {}, which is no slab", s, slab));
    const auto& whole = program.slots[at(slab)].external;
    auto& slot = program.slots[s];
    const std::int64_t first = page * Slab::kPageElements, elements = slot.bytes / std::int64_t{sizeof(float)};
    if (elements > whole->elements || first > whole->elements - elements) refuse(fmt::format("slot {} lies outside of slot {}", s, slab));
    const Spec flat = flat_spec(program, s);
    const auto part = std::make_shared<Storage>(session, elements);
    part->memory = session.interpreter().part_of(whole->memory, first * std::int64_t{sizeof(float)}, flat.bytes());
    part->whole = whole;
    part->first = first;
    if (slot.external)
      session.interpreter().copy(Value(flat, slot.external), Value(flat, part));
    else
      slot.spec = flat;
    slot.external = part;
  }
}

}  // namespace

bool is_saved_with_last_tensors(const std::filesystem::path& graph) {
  if (!is_there(last_tensors_beside(graph))) return false;
  try {
    return tensors_in(last_tensors_beside(graph), parsed_of(read_whole(graph)).checksum).has_value();
  } catch (const std::exception&) {  // one of the two is missing or damaged
    return false;
  }
}

SavedGraph load_graph(Session& session, const std::filesystem::path& path) {
  const std::vector<std::byte> file = read_fetched(path);
  const TraceScope computing(session, session.interpreter());  // the contents are tensors also where another graph is being captured
  try {
    ParsedGraph parsed = parsed_of(file);
    Program& program = parsed.saved.program;
    bind_tensors(session, program, parsed, path);
    make_zeros(session, program, parsed.memory);
    join_slabs(session, program, parsed.memory);
    verify(program, "loading");
    return std::move(parsed.saved);
  } catch (const DeviceError&) {
    throw;
  } catch (const std::exception& e) {  // the parser's, a refusal, or what verify found
    throw DataError(fmt::format("load_graph: {}: {}", path.string(), worded(e)));
  }
}

}  // namespace gemel
