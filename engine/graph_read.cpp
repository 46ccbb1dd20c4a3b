// Reading graph files. Nothing in them is believed: what an instruction may rely on (how many inputs it has, attributes of the
// declared types, specs that are inferred, uses that lie in their slots) is checked here or by verify.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/base/checked.h"
#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/base/span.h"
#include "engine/graph_file.h"
#include "engine/graph_json.h"
#include "engine/ops/catalog.h"
#include "engine/ops/ops.h"
#include "engine/safetensors.h"
#include "engine/session.h"
#include "engine/slab.h"

namespace gemel {
namespace {

using Json = nlohmann::json;

/// What is wrong; the file's name is put before it.
[[noreturn]] void refuse(const std::string& what) { throw DataError(what); }

const Json& field(const Json& object, const char* name) {
  if (!object.is_object() || !object.contains(name)) refuse(fmt::format("'{}' is missing", name));
  return object[name];
}

std::int64_t integer(const Json& json, const char* name, std::int64_t least, std::int64_t most) {
  if (!json.is_number_integer() || (json.is_number_unsigned() && json.get<std::uint64_t>() > std::uint64_t{INT64_MAX}))
    refuse(fmt::format("'{}' is no integer", name));
  const auto v = json.get<std::int64_t>();
  if (v < least || v > most) refuse(fmt::format("'{}' is {}; accepted: {} to {}", name, v, least, most));
  return v;
}

std::int64_t optional_integer(const Json& object, const char* name) {
  return object.contains(name) ? integer(object[name], name, 0, INT64_MAX) : 0;
}

const std::string& text(const Json& json, const char* name) {
  if (!json.is_string()) refuse(fmt::format("'{}' is no text", name));
  return json.get_ref<const std::string&>();
}

const Json& array(const Json& object, const char* name) {
  const Json& json = field(object, name);
  if (!json.is_array()) refuse(fmt::format("'{}' is no list", name));
  return json;
}

std::vector<std::int64_t> integers(const Json& json, const char* name) {
  if (!json.is_array()) refuse(fmt::format("'{}' is no list", name));
  std::vector<std::int64_t> out;
  for (const Json& v : json) out.push_back(integer(v, name, INT64_MIN, INT64_MAX));
  return out;
}

Shape shape_of(const std::vector<std::int64_t>& extents) {
  if (extents.size() > at(Shape::kMaxRank) || !checked_bytes(extents, 8)) refuse(fmt::format("a shape of {} axes is too large or negative", extents.size()));
  return Shape(extents);
}

DType dtype_of(const std::string& name) {
  const auto dtype = parse_dtype(name);
  if (!dtype) refuse(fmt::format("'{}' is no element type", name));
  return *dtype;
}

/// "float32 [2, 3]"
Spec spec_of(const std::string& written) {
  const std::size_t space = written.find(' ');
  if (space == std::string::npos) refuse(fmt::format("'{}' is no spec", written));
  return {shape_of(integers(Json::parse(written.substr(space + 1)), "spec")), dtype_of(written.substr(0, space))};
}

/// Reads one program; a slot has one element type throughout.
class Reader {
 public:
  explicit Reader(int depth) : depth_(depth) {
    if (depth > kMostNesting) refuse(fmt::format("programs nest deeper than {}", kMostNesting));
  }

  Program read(const Json& json) {
    for (const Json& slot : array(json, "slots")) {
      program.slots.push_back({integer(field(slot, "bytes"), "bytes", 0, INT64_MAX), nullptr, slot.contains("name") ? text(slot["name"], "name") : "", {}});
      tensors.push_back(slot.contains("tensor") ? text(slot["tensor"], "tensor") : "");
      memory.push_back({slot.contains("zeros") && slot["zeros"] == true, -1, 0});
      if (!slot.contains("slab")) continue;
      memory.back().slab = integer(slot["slab"], "slab", 0, INT64_MAX);
      memory.back().page = integer(field(slot, "page"), "page", 0, INT64_MAX / (2 * Slab::kPageElements));
    }
    types_.resize(program.slots.size());
    program.inputs = uses(array(json, "inputs"));
    for (const Json& step : array(json, "code")) {
      try {
        program.code.push_back(instruction(step));
      } catch (const Error& e) {
        refuse(fmt::format("instruction {}: {}", program.code.size(), e.what()));
      }
    }
    program.outputs = uses(array(json, "outputs"));
    check_inputs();
    return std::move(program);
  }

  Program program;
  std::vector<std::string> tensors;  // [slot]
  /// Memory from outside that begins as zeros, or is a range of another slot's.
  struct Outside {
    bool zeros;
    std::int64_t slab, page;
  };
  std::vector<Outside> memory;  // [slot]

 private:
  std::vector<Program::Use> uses(const Json& json) {
    std::vector<Program::Use> out;
    for (const Json& u : json) {
      const int slot = static_cast<int>(integer(field(u, "slot"), "slot", 0, static_cast<std::int64_t>(program.slots.size()) - 1));
      const Spec spec = spec_of(text(field(u, "spec"), "spec"));
      const std::int64_t offset = optional_integer(u, "offset");
      if (offset > INT64_MAX / 16 || spec.bytes() > INT64_MAX / 16) refuse("an offset or a spec is too large");
      if (types_[at(slot)].value_or(spec.dtype) != spec.dtype) refuse(fmt::format("slot {} is used with two element types", slot));
      types_[at(slot)] = spec.dtype;
      out.push_back({slot, spec, offset, static_cast<std::uint64_t>(optional_integer(u, "version")), u.contains("tracked") && u["tracked"] == true});
    }
    return out;
  }

  Attributes::Item attribute(const AttributeDef& def, const Json& json) {
    const Json& v = field(json, std::string(to_string(def.type)).c_str());
    switch (def.type) {
      case Type::integer: return integer(v, def.name, INT64_MIN, INT64_MAX);
      case Type::real: return real(v, def.name);
      case Type::boolean:
        if (!v.is_boolean()) refuse(fmt::format("'{}' is not true or false", def.name));
        return v.get<bool>();
      case Type::text: return text(v, def.name);
      case Type::integers: return integers(v, def.name);
      case Type::shape: return shape_of(integers(v, def.name));
      case Type::dtype: return dtype_of(text(v, def.name));
      case Type::program: return body(v);
    }
    refuse(fmt::format("'{}' is of an unknown type", def.name));
  }

  static double real(const Json& v, const char* name) {
    if (v.is_number()) return v.get<double>();
    if (v == "inf") return INFINITY;
    if (v == "-inf") return -INFINITY;
    if (v == "nan" || v == "-nan") return NAN;
    refuse(fmt::format("'{}' is no number", name));
  }

  std::shared_ptr<const Program> body(const Json& json) const {
    Reader reader(depth_ + 1);
    auto out = std::make_shared<Program>(reader.read(json));
    for (std::size_t s = 0; s < reader.tensors.size(); ++s)
      if (!reader.tensors[s].empty() || reader.memory[s].zeros) refuse("a program in a program has tensors of its own");
    verify(*out, "loading");
    return out;
  }

  static void check_arity(const OpDef& op, std::size_t given) {
    const bool repeats = !op.inputs.empty() && op.inputs.back().ends_with("...");
    const std::size_t named = op.inputs.size();
    const std::size_t least = repeats && named > 1 ? named - 1 : named;
    if (given < least || (!repeats && given > named)) refuse(fmt::format("{} inputs; accepted: {}{}", given, least, repeats ? " or more" : ""));
  }

  Program::Instruction instruction(const Json& json) {
    const std::string& name = text(field(json, "op"), "op");
    const OpDef* op = find_op(name);
    if (!op) refuse(fmt::format("there is no operator '{}'", name));
    try {
      if (op->views) refuse("only shapes another use, which a program does without");
      Program::Instruction out{op, {}, uses(array(json, "inputs")), uses(array(json, "outputs")),
                               json.contains("scope") ? text(json["scope"], "scope") : "", {}, {}};
      check_arity(*op, out.inputs.size());
      const Json none = Json::object();
      const Json& given = json.contains("attributes") ? json["attributes"] : none;
      if (given.size() != op->attributes.size()) refuse(fmt::format("{} attributes; accepted: {}", given.size(), op->attributes.size()));
      for (const AttributeDef& def : op->attributes) out.attributes.set(def.name, attribute(def, field(given, def.name)));
      if (json.contains("after"))
        for (std::int64_t before : integers(json["after"], "after")) {
          if (before < 0 || at(before) >= program.code.size()) refuse(fmt::format("runs after instruction {}; accepted: an earlier one", before));
          out.after.push_back(static_cast<int>(before));
        }
      return out;
    } catch (const Error& e) {
      refuse(fmt::format("{}: {}", name, e.what()));
    }
  }

  void check_inputs() const {
    std::vector<bool> seen(program.slots.size(), false);
    for (const auto& u : program.inputs) {
      if (seen[at(u.slot)] || !tensors[at(u.slot)].empty() || memory[at(u.slot)].zeros) refuse(fmt::format("slot {} is an input twice, or a tensor too", u.slot));
      seen[at(u.slot)] = true;
      if (u.offset != 0 || u.spec.bytes() != program.slots[at(u.slot)].bytes)
        refuse(fmt::format("input slot {} of {} bytes is {}", u.slot, program.slots[at(u.slot)].bytes, to_string(u.spec)));
    }
  }

  int depth_;
  std::vector<std::optional<DType>> types_;  // [slot]
};

void bind_tensors(Session& session, Program& program, const std::vector<std::string>& names, const std::filesystem::path& path) {
  std::optional<SafetensorsFile> file;
  for (std::size_t s = 0; s < names.size(); ++s) {
    if (names[s].empty()) continue;
    if (!file) file.emplace(path);
    const NamedTensor* tensor = file->find(names[s]);
    if (!tensor) refuse(fmt::format("tensor '{}' is not in {}", names[s], path.string()));
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

void make_zeros(Session& session, Program& program, const std::vector<Reader::Outside>& memory) {
  for (std::size_t s = 0; s < memory.size(); ++s) {
    if (!memory[s].zeros || memory[s].slab >= 0) continue;
    const Spec spec = flat_spec(program, s);
    program.slots[s].external = full(session, spec, 0).storage();
    program.slots[s].spec = spec;
  }
}

/// Moves ranges into the slabs that they are of.
void join_slabs(Session& session, Program& program, const std::vector<Reader::Outside>& memory) {
  for (std::size_t s = 0; s < memory.size(); ++s) {
    const auto [zeros, slab, page] = memory[s];
    if (slab < 0) continue;
    if (at(slab) >= memory.size() || memory[at(slab)].slab >= 0 || !program.slots[at(slab)].external) refuse(fmt::format("slot {} is a range of {}, which is no slab", s, slab));
    const auto& whole = program.slots[at(slab)].external;
    auto& slot = program.slots[s];
    const std::int64_t first = page * Slab::kPageElements, elements = slot.bytes / std::int64_t{sizeof(float)};
    if (elements > whole->elements || first > whole->elements - elements) refuse(fmt::format("slot {} lies outside of slot {}", s, slab));
    const Spec flat = flat_spec(program, s);
    const auto part = std::make_shared<Storage>(session, elements);
    part->memory = session.interpreter().part_of(whole->memory, first * std::int64_t{sizeof(float)}, flat.bytes());
    part->whole = whole;
    part->first = first;
    if (slot.external) session.interpreter().copy(Value(flat, slot.external), Value(flat, part));
    else slot.spec = flat;
    slot.external = part;
  }
}

}  // namespace

Program load_graph(Session& session, const std::filesystem::path& path) {
  const MappedFile file(path);
  try {
    const auto* begin = reinterpret_cast<const char*>(file.bytes().data());
    const Json json = Json::parse(begin, begin + file.bytes().size());
    if (field(json, "format") != kGraphFormat) refuse(fmt::format("'format' is not {}", kGraphFormat));
    if (field(json, "version") != kGraphVersion) refuse(fmt::format("'version' is not {}", kGraphVersion));
    Reader reader(0);
    Program program = reader.read(json);
    bind_tensors(session, program, reader.tensors, std::filesystem::path(path).replace_extension(".safetensors"));
    make_zeros(session, program, reader.memory);
    join_slabs(session, program, reader.memory);
    verify(program, "loading");
    return program;
  } catch (const DeviceError&) {
    throw;
  } catch (const std::exception& e) {  // the parser's, a refusal, or what verify found
    throw DataError(fmt::format("load_graph: {}: {}", path.string(), e.what()));
  }
}

}  // namespace gemel
