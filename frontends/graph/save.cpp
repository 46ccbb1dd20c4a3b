// Saves graphs with all that is needed to continue, and builds them again.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/device/host_contents.h"
#include "engine/files/safetensors.h"
#include "engine/graph/capture/instruction_order.h"
#include "engine/ops/ops.h"
#include "frontends/graph/graph.h"

namespace gemel::graph {
namespace {

/// Settings of a training operation for each parameter, each with its name behind it.
constexpr const char *kRow = "row", *kGroup = "group", *kSteps = "steps", *kGradient = "gradient";

Attributes settings_of(const Graph::Training& training) {
  const optim::Hyperparameters& h = *training.hyperparameters;
  Attributes out{{"rate", h.rate}, {"weight_decay", h.weight_decay}, {"steps", h.steps}};
  for (std::size_t i = 0; i < h.betas.size(); ++i) out.set(fmt::format("beta.{}", i), h.betas[i]);
  for (std::size_t g = 0; g < h.groups.size(); ++g) {
    out.set(fmt::format("rate_factor.{}", g), h.groups[g].rate_factor);
    if (h.groups[g].weight_decay) out.set(fmt::format("weight_decay.{}", g), *h.groups[g].weight_decay);
  }
  for (std::size_t i = 0; i < training.names.size(); ++i) {
    const std::string of = "." + training.names[i];
    out.set(kRow + of, static_cast<std::int64_t>(i));
    out.set(kGroup + of, static_cast<std::int64_t>(h.rows[i].group));
    out.set(kSteps + of, h.rows[i].steps);
    out.set(kGradient + of, static_cast<std::int64_t>(training.gradients[i]));
  }
  return out;
}

double real(const Attributes& settings, const std::string& name) {
  const auto* found = settings.find(name);
  if (!found || !std::holds_alternative<double>(*found)) throw DataError(fmt::format("the setting '{}' is missing", name));
  return std::get<double>(*found);
}

std::int64_t integer(const Attributes& settings, const std::string& name) {
  const auto* found = settings.find(name);
  if (!found || !std::holds_alternative<std::int64_t>(*found)) throw DataError(fmt::format("the setting '{}' is missing", name));
  return std::get<std::int64_t>(*found);
}

std::size_t index(const Attributes& settings, const std::string& name, std::size_t count) {
  const std::int64_t i = integer(settings, name);
  if (i < 0 || at(i) >= count) throw DataError(fmt::format("the setting '{}' is {}; accepted: 0..{}", name, i, std::int64_t(count) - 1));
  return at(i);
}

optim::Hyperparameters hyperparameters_of(const Attributes& settings) {
  optim::Hyperparameters out{.rate = real(settings, "rate"),
                             .weight_decay = real(settings, "weight_decay"),
                             .betas = {},
                             .groups = {},
                             .steps = integer(settings, "steps"),
                             .rows = {}};
  for (std::size_t i = 0; settings.has(fmt::format("beta.{}", i)); ++i) out.betas.push_back(real(settings, fmt::format("beta.{}", i)));
  for (std::size_t g = 0; settings.has(fmt::format("rate_factor.{}", g)); ++g) {
    out.groups.push_back({.rate_factor = real(settings, fmt::format("rate_factor.{}", g))});
    if (const std::string decay = fmt::format("weight_decay.{}", g); settings.has(decay)) out.groups.back().weight_decay = real(settings, decay);
  }
  return out;
}

/// @param variables  the graph's parameters
Graph::Training training_of(const Attributes& settings, std::size_t input, const ParameterSet& variables) {
  const auto h = std::make_shared<optim::Hyperparameters>(hyperparameters_of(settings));
  std::vector<std::string> names;
  const std::string before = std::string(kRow) + ".";
  for (const auto& [key, setting] : settings.entries())
    if (key.starts_with(before)) names.push_back(key.substr(before.size()));
  const std::size_t count = names.size();
  Graph::Training out{input, h, std::vector<std::string>(count), std::vector<Graph::Gradient>(count)};
  h->rows.resize(count);
  for (const std::string& name : names) {
    const Value* parameter = variables.find(name);
    if (!parameter) throw DataError(fmt::format("the trained parameter '{}' is missing", name));
    const std::size_t i = index(settings, before + name, count);
    out.names[i] = name;
    out.gradients[i] = static_cast<Graph::Gradient>(index(settings, kGradient + ("." + name), 3));
    h->rows[i] = {*parameter, index(settings, kGroup + ("." + name), h->groups.size()), integer(settings, kSteps + ("." + name))};
  }
  for (const auto& row : h->rows)
    if (!row.parameter) throw DataError("two trained parameters have one row");
  return out;
}

/// The keys of settings that are not an operation's.
constexpr const char *kRuns = "runs", *kDraws = "draws", *kFrozen = "frozen";
/// Of a training operation, behind its name: the steps of each parameter, saved where they are not the same for all.
constexpr const char* kParameterSteps = ".parameter_steps";

}  // namespace

void Graph::save(const std::filesystem::path& path) {
  GraphNames out{.graph = name(), .values = {}, .operations = {}, .parameters = {}, .buffers = {}, .settings = {}};
  for (const auto& [name, fetch] : names_) {
    if (const auto* value = std::get_if<Value>(&fetch))
      out.values.emplace(name, trace_.use(*value, "saving"));
    else
      out.operations.emplace(name, std::get<Operation>(fetch).instructions);
  }
  for (const auto& [name, value] : variables_.parameters()) {
    out.parameters.push_back(name);
    if (!value.wants_gradient()) out.settings[kFrozen].set(name, std::int64_t{1});
  }
  for (const auto& [name, value] : variables_.buffers()) out.buffers.push_back(name);
  out.settings[kRuns].set(kRuns, runs_);
  for (const auto& [scope, count] : trace_.random().ordinals()) out.settings[kDraws].set(scope, count);
  for (const auto& [name, training] : trainings_) out.settings["training." + name] = settings_of(training);
  save_graph(program(), path, out);
}

/// Builds a saved program again, instruction by instruction, so that its values have their histories.
class Graph::Loader {
 public:
  Loader(Graph& graph, const SavedGraph& saved) : graph_(graph), saved_(saved), overtaken_(overtaken(saved.program)), values_(saved.program.slots.size()) {}

  void load() {
    const Building building(graph_);
    for (const std::string& name : saved_.names.parameters) {
      Value& v = values_[at(use_of(name).slot)];
      if (!v) v = leaf(outside(use_of(name)));
      if (const auto frozen = saved_.names.settings.find(kFrozen); frozen != saved_.names.settings.end() && frozen->second.has(name))
        set_wants_gradient(v, false);
    }
    std::size_t next = 0;
    for (std::size_t s = 0; s < values_.size(); ++s) {  // slots are numbered as they became known
      while (!is_known(s)) {
        if (next == saved_.program.code.size()) throw DataError(fmt::format("slot {} is never made", s));
        again(saved_.program.code[next++]);
      }
    }
    while (next < saved_.program.code.size()) again(saved_.program.code[next++]);
    if (graph_.program().code.size() != next) throw InternalError("graph: an instruction was not built again as it was saved");
    name_all();
  }

 private:
  const Program::Use& use_of(const std::string& name) const { return saved_.names.values.at(name); }

  Value outside(const Program::Use& u) const { return {u.spec, saved_.program.slots[at(u.slot)].external}; }

  /// Makes a slot known to the graph, unless an instruction is to make it.
  bool is_known(std::size_t s) {
    const auto& slot = saved_.program.slots[s];
    if (slot.external) {
      if (!values_[s]) values_[s] = Value(slot.spec, slot.external);
      if (slot.name.empty())
        graph_.trace_.use(values_[s], "loading");
      else
        graph_.trace_.name_slot(values_[s], slot.name);
    } else if (s == 0) {
      values_[s] = graph_.random_state_;
    } else if (const auto input = std::ranges::find(saved_.program.inputs, static_cast<int>(s), &Program::Use::slot); input != saved_.program.inputs.end()) {
      values_[s] = graph_.trace_.input(input->spec, slot.name);
    }
    return static_cast<bool>(values_[s]);
  }

  Value see(const Program::Use& u) const {
    const Value& v = values_[at(u.slot)];
    if (!v) throw DataError(fmt::format("slot {} is used before it is made", u.slot));
    if (u.offset != 0 || u.spec.elements() != v.elements()) return v.view(u.spec, u.offset);
    return reshape(u.tracked ? v : v.detached(), u.spec.shape);
  }

  void again(const Program::Instruction& step) {
    const PathScope path(graph_.session_, std::make_shared<const std::string>(step.scope));
    Values in, into;
    for (const auto& u : step.inputs) in.push_back(see(u));
    bool fills = false;
    for (const auto& u : step.outputs) {
      const bool is_outside = saved_.program.slots[at(u.slot)].external != nullptr;
      into.push_back(is_outside ? outside(u) : Value());
      fills |= is_outside;
    }
    const std::size_t i = graph_.program().code.size();
    std::vector<int> after = step.after;
    std::erase_if(after, [i](int other) { return at(other) > i; });  // those name this one when they come
    const RunAfter ordered(graph_.trace_, std::move(after));
    const GraphTrace::AsBefore as_before(graph_.trace_, overtaken_[i]);
    Values out = apply(graph_.session_, *step.op, std::move(in), step.attributes, fills ? std::span<const Value>(into) : std::span<const Value>());
    for (std::size_t o = 0; o < out.size(); ++o)
      if (!into[o]) values_[at(step.outputs[o].slot)] = std::move(out[o]);
  }

  void name_all() {
    const GraphNames& names = saved_.names;
    for (const auto& [name, use] : names.values)
      if (name != "random_state") graph_.claim(name, variable(name) ? values_[at(use.slot)] : see(tracked(use)));
    for (const auto& [name, instructions] : names.operations) graph_.claim(name, Operation{&graph_, name, instructions});
    for (const std::string& name : names.parameters) graph_.variables_.add_parameter(name, values_[at(use_of(name).slot)]);
    for (const std::string& name : names.buffers) graph_.variables_.add_buffer(name, values_[at(use_of(name).slot)]);
    for (const auto& [name, settings] : names.settings) {
      if (name == kRuns) graph_.runs_ = integer(settings, kRuns);
      if (name == kDraws)
        for (const auto& [scope, count] : settings.entries()) graph_.trace_.random().continue_after(scope, integer(settings, scope));
      if (!name.starts_with("training.")) continue;
      const std::string operation = name.substr(9);
      const auto& inputs = saved_.program.inputs;
      const auto named = names.values.find(operation + ".hyperparameters");
      const auto input = named == names.values.end() ? inputs.end() : std::ranges::find(inputs, named->second.slot, &Program::Use::slot);
      if (input == inputs.end()) throw DataError(fmt::format("{} takes no hyperparameters", operation));
      Training training = training_of(settings, static_cast<std::size_t>(input - inputs.begin()), graph_.variables_);
      if (const Spec given = training.hyperparameters->spec(); given != input->spec)
        throw DataError(fmt::format("{} has hyperparameters {}; accepted: {}", operation, to_string(given), to_string(input->spec)));
      graph_.trainings_.emplace(operation, std::move(training));
    }
  }

  bool variable(const std::string& name) const {
    return std::ranges::find(saved_.names.parameters, name) != saved_.names.parameters.end() ||
           std::ranges::find(saved_.names.buffers, name) != saved_.names.buffers.end();
  }
  /// A value that is asked for by its name has its history.
  static Program::Use tracked(Program::Use use) {
    use.tracked = true;
    return use;
  }

  Graph& graph_;
  const SavedGraph& saved_;
  std::vector<std::vector<int>> overtaken_;  // [instruction]
  Values values_;                            // [slot]
};

std::unique_ptr<Graph> Graph::load(Session& session, const std::filesystem::path& path) {
  const SavedGraph saved = load_graph(session, path);
  try {
    if (saved.program.inputs.empty() || saved.program.inputs[0].slot != 0 || saved.program.inputs[0].spec != i64({4}))
      throw DataError("the first input is no random state: it is a part of a graph; accepted: what Graph::save wrote");
    auto graph = std::make_unique<Graph>(session, saved.names.graph);
    Loader(*graph, saved).load();
    return graph;
  } catch (const DeviceError&) {
    throw;
  } catch (const Error& e) {
    throw DataError(fmt::format("graph: {}: {}", path.string(), e.what()));
  }
}

/// What goes on counting from run to run, by the name under which it is saved.
std::map<std::string, std::int64_t*> Graph::counts() {
  std::map<std::string, std::int64_t*> out{{"graph.runs", &runs_}};
  for (const auto& [name, training] : trainings_) out.emplace(name + ".steps", &training.hyperparameters->steps);
  return out;
}

void Graph::save_variables(const std::filesystem::path& path) {
  std::vector<NamedValue> saved;
  for (const auto& list : {variables_.parameters(), variables_.buffers()}) saved.insert(saved.end(), list.begin(), list.end());
  const HostContents contents(values_of(saved));
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < saved.size(); ++i) tensors.push_back({saved[i].name, saved[i].value.spec(), contents[i]});
  const auto counted = counts();
  for (const auto& [name, count] : counted) tensors.push_back({name, i64({}), std::as_bytes(std::span(count, 1))});
  std::map<std::string, std::vector<std::int64_t>> steps;
  for (const auto& [name, training] : trainings_)
    if (const auto of_each = training.parameter_steps(); std::ranges::any_of(of_each, [&](std::int64_t n) { return n != training.hyperparameters->steps; }))
      steps.emplace(name + kParameterSteps, of_each);
  for (const auto& [name, of_each] : steps) tensors.push_back({name, i64({std::ssize(of_each)}), std::as_bytes(std::span(of_each))});
  write_safetensors(path, tensors);
}

void Graph::restore_variables(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::string wrong;
  const auto find = [&](const std::string& name, const Spec& spec) {
    const NamedTensor* found = file.find(name);
    if (!found)
      wrong += fmt::format("; {} is missing", name);
    else if (found->spec != spec)
      wrong += fmt::format("; {} is {}, accepted: {}", name, to_string(found->spec), to_string(spec));
    return found;
  };
  std::vector<std::pair<const NamedTensor*, Value>> writes;
  for (const auto& list : {variables_.parameters(), variables_.buffers()})
    for (const auto& [name, value] : list) writes.emplace_back(find(name, value.spec()), value);
  const auto counted = counts();
  std::vector<std::pair<const NamedTensor*, std::int64_t*>> numbers;
  for (const auto& [name, count] : counted) numbers.emplace_back(find(name, i64({})), count);
  std::map<std::string, const Training*> by_steps;  // of each parameter: they may be absent
  for (const auto& [name, training] : trainings_) by_steps.emplace(name + kParameterSteps, &training);
  for (const auto& [name, training] : by_steps)
    if (file.find(name)) find(name, i64({std::ssize(training->names)}));
  for (const NamedTensor& t : file.tensors())
    if (!variables_.find(t.name) && !counted.contains(t.name) && !by_steps.contains(t.name)) wrong += fmt::format("; {} is unknown", t.name);
  if (!wrong.empty()) throw DataError(fmt::format("restore_variables: {} does not fit the graph '{}'{}", path.string(), name(), wrong));
  for (const auto& [tensor, value] : writes) write(value, tensor->data);
  for (const auto& [tensor, count] : numbers) std::memcpy(count, tensor->data.data(), sizeof *count);
  for (const auto& [name, training] : by_steps) {
    std::vector<std::int64_t> of_each(training->names.size(), training->hyperparameters->steps);
    if (const NamedTensor* found = file.find(name)) std::ranges::copy(found->data, std::as_writable_bytes(std::span(of_each)).begin());
    for (std::size_t i = 0; i < of_each.size(); ++i) training->hyperparameters->rows[i].steps = of_each[i];
  }
}

}  // namespace gemel::graph
