// Reading graph files. Nothing in them is trusted: parsing and `verify` check everything that an instruction relies on, such as its number of
// inputs, the types of attributes, the inferred specs, and that uses lie in their slots.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/checked_bytes.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/files/graph_json.h"
#include "engine/ops/catalog.h"
#include "engine/parameters/parameter_slab.h"

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

std::int64_t optional_integer(const Json& object, const char* name) { return object.contains(name) ? integer(object[name], name, 0, INT64_MAX) : 0; }

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

/// "2", "?" or "4*?"
std::int64_t extent_of(std::string_view written) {
  std::int64_t factor = 1, unit = 1;
  if (written.ends_with('?')) {
    unit = kOpenExtent;
    written.remove_suffix(1);
    if (written.empty()) return unit;
    if (!written.ends_with('*')) refuse(fmt::format("'{}?' is no extent", written));
    written.remove_suffix(1);
  }
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), factor);
  if (error != std::errc() || end != written.data() + written.size() || factor < 0 || factor > INT64_MAX / unit)
    refuse(fmt::format("the extent '{}' is no number, negative or too large", written));
  return factor * unit;
}

/// "float32 [2, 3]"
Spec spec_of(std::string_view written) {
  const std::size_t space = written.find(" [");
  if (space == std::string_view::npos || !written.ends_with(']')) refuse(fmt::format("'{}' is no spec", written));
  std::string_view extents = written.substr(space + 2, written.size() - space - 3);
  std::vector<std::int64_t> shape;
  while (!extents.empty()) {
    const std::size_t comma = std::min(extents.find(", "), extents.size());
    shape.push_back(extent_of(extents.substr(0, comma)));
    extents.remove_prefix(std::min(comma + 2, extents.size()));
  }
  return {shape_of(shape), dtype_of(std::string(written.substr(0, space)))};
}

/// Reads one program; a slot has one element type throughout.
class Reader {
 public:
  explicit Reader(int depth) : depth_(depth) {
    if (depth > kMostNesting) refuse(fmt::format("programs nest deeper than {}", kMostNesting));
  }

  ParsedGraph read(const Json& json) {
    for (const Json& slot : array(json, "slots")) {
      program_.slots.push_back({integer(field(slot, "bytes"), "bytes", 0, INT64_MAX), nullptr, slot.contains("name") ? text(slot["name"], "name") : "", {}});
      tensors_.push_back(slot.contains("tensor") ? text(slot["tensor"], "tensor") : "");
      memory_.push_back({slot.contains("zeros") && slot["zeros"] == true, -1, 0});
      if (!slot.contains("slab")) continue;
      memory_.back().slab = integer(slot["slab"], "slab", 0, INT64_MAX);
      memory_.back().page = integer(field(slot, "page"), "page", 0, INT64_MAX / (2 * Slab::kPageElements));
    }
    types_.resize(program_.slots.size());
    program_.inputs = uses(array(json, "inputs"));
    instructions_ = std::ssize(array(json, "code"));
    for (const Json& step : array(json, "code")) {
      try {
        program_.code.push_back(instruction(step));
      } catch (const Error& e) {
        refuse(fmt::format("instruction {}: {}", program_.code.size(), e.what()));
      }
    }
    program_.outputs = uses(array(json, "outputs"));
    check_inputs();
    if (json.contains("names")) read_names(json["names"]);
    return {{std::move(program_), std::move(names_)}, "", "", std::move(tensors_), std::move(memory_)};
  }

 private:
  /// Members of an object, by name.
  template <class F>
  static void each(const Json& object, const char* name, F f) {
    const Json& members = field(object, name);
    if (!members.is_object()) refuse(fmt::format("'{}' is no object", name));
    for (const auto& [key, member] : members.items()) f(key, member);
  }

  void read_names(const Json& json) {
    names_.graph = text(field(json, "graph"), "graph");
    each(json, "values", [&](const std::string& name, const Json& use) { names_.values.emplace(name, uses(Json::array({use}))[0]); });
    each(json, "operations", [&](const std::string& name, const Json& list) {
      for (std::int64_t i : integers(list, "operations")) {
        if (i < 0 || at(i) >= program_.code.size()) refuse(fmt::format("operation '{}' runs instruction {}, which is not there", name, i));
        names_.operations[name].push_back(static_cast<int>(i));
      }
    });
    for (auto [key, list] : {std::pair("parameters", &names_.parameters), std::pair("buffers", &names_.buffers)})
      for (const Json& name : array(json, key)) {
        list->push_back(text(name, key));
        const auto value = names_.values.find(list->back());
        if (value == names_.values.end() || (tensors_[at(value->second.slot)].empty() && !memory_[at(value->second.slot)].zeros))
          refuse(fmt::format("the variable '{}' has no contents", list->back()));
      }
    each(json, "settings", [&](const std::string& name, const Json& settings) {
      for (const auto& [key, item] : settings.items())
        for (const auto& [type, v] : item.items()) {
          if (type == to_string(Type::integer))
            names_.settings[name].set(key, integer(v, key.c_str(), INT64_MIN, INT64_MAX));
          else if (type == to_string(Type::real))
            names_.settings[name].set(key, real(v, key.c_str()));
          else
            refuse(fmt::format("the setting '{}' of '{}' is a {}; accepted: integer, real", key, name, type));
        }
    });
  }

  std::vector<Program::Use> uses(const Json& json) {
    std::vector<Program::Use> out;
    for (const Json& u : json) {
      const int slot = static_cast<int>(integer(field(u, "slot"), "slot", 0, static_cast<std::int64_t>(program_.slots.size()) - 1));
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
      case Type::integer:
        return integer(v, def.name, INT64_MIN, INT64_MAX);
      case Type::real:
        return real(v, def.name);
      case Type::boolean:
        if (!v.is_boolean()) refuse(fmt::format("'{}' is not true or false", def.name));
        return v.get<bool>();
      case Type::text:
        return text(v, def.name);
      case Type::integers:
        return integers(v, def.name);
      case Type::shape:
        return shape_of(integers(v, def.name));
      case Type::dtype:
        return dtype_of(text(v, def.name));
      case Type::program:
        return body(v);
      case Type::state:
        refuse(fmt::format("'{}' is state of a process", def.name));
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
    ParsedGraph parsed = Reader(depth_ + 1).read(json);
    auto out = std::make_shared<Program>(std::move(parsed.saved.program));
    for (std::size_t s = 0; s < parsed.tensors.size(); ++s)
      if (!parsed.tensors[s].empty() || parsed.memory[s].zeros) refuse("a program in a program has tensors of its own");
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
      Program::Instruction out{op, {}, uses(array(json, "inputs")), uses(array(json, "outputs")), json.contains("scope") ? text(json["scope"], "scope") : "",
                               {}, {}};
      check_arity(*op, out.inputs.size());
      const Json none = Json::object();
      const Json& given = json.contains("attributes") ? json["attributes"] : none;
      if (given.size() != op->attributes.size()) refuse(fmt::format("{} attributes; accepted: {}", given.size(), op->attributes.size()));
      for (const AttributeDef& def : op->attributes) out.attributes.set(def.name, attribute(def, field(given, def.name)));
      if (json.contains("after"))
        for (std::int64_t other : integers(json["after"], "after")) {
          if (other < 0 || other >= instructions_ || at(other) == program_.code.size())
            refuse(fmt::format("runs after instruction {}; accepted: another one of {}", other, instructions_));
          out.after.push_back(static_cast<int>(other));
        }
      return out;
    } catch (const Error& e) {
      refuse(fmt::format("{}: {}", name, e.what()));
    }
  }

  void check_inputs() const {
    std::vector<bool> seen(program_.slots.size(), false);
    for (const auto& u : program_.inputs) {
      if (seen[at(u.slot)] || !tensors_[at(u.slot)].empty() || memory_[at(u.slot)].zeros)
        refuse(fmt::format("slot {} is an input twice, or a tensor too", u.slot));
      seen[at(u.slot)] = true;
      if (u.offset != 0 || u.spec.bytes() != program_.slots[at(u.slot)].bytes)
        refuse(fmt::format("input slot {} of {} bytes is {}", u.slot, program_.slots[at(u.slot)].bytes, to_string(u.spec)));
    }
  }

  int depth_;
  std::int64_t instructions_ = 0;  // of the program
  Program program_;
  GraphNames names_;
  std::vector<std::string> tensors_;          // [slot]
  std::vector<ParsedGraph::Outside> memory_;  // [slot]
  std::vector<std::optional<DType>> types_;   // [slot]
};

}  // namespace

ParsedGraph parse_graph(std::string_view written) {
  const Json json = Json::parse(written, nullptr, false);
  if (json.is_discarded()) refuse("it is no JSON");
  if (field(json, "format") != kGraphFormat) refuse(fmt::format("'format' is not {}", kGraphFormat));
  if (field(json, "version") != kGraphVersion) refuse(fmt::format("'version' is not {}", kGraphVersion));
  ParsedGraph out = Reader(0).read(json);
  out.checksum = text(field(json, "checksum"), "checksum");
  out.structure = text(field(json, "structure"), "structure");
  return out;
}

}  // namespace gemel
