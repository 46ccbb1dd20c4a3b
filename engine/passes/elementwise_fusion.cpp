// Elementwise fusion: a chain of elementwise operators becomes one kernel, which keeps intermediate results in registers. A producer joins its
// consumer if its result has no other user, both have the same shape, and no instruction in between writes what the producer reads or is a
// recomputation. Operators of equal structure share one kernel, whatever their scalars; all kernels of a program are built together.
// A multiplication and an addition in one kernel may contract, so the last bit may differ.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/ops/elementwise_kernels.h"
#include "engine/passes/passes.h"
#include "engine/passes/slot_usage.h"

namespace gemel {
namespace {

constexpr std::size_t kMostInputs = 6;  // of one kernel: its forms double with each

/// A group of instructions that become one: statements over the group's own inputs x0, x1, ...
struct Chain {
  std::vector<Program::Use> inputs;
  ChainText text;
  Attributes attributes;  // the scalars, renamed s0, s1, ...
  int temporaries = 0;
};

/// Replaces whole identifiers.
std::string renamed(const std::string& text, const std::map<std::string, std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (!std::isalpha(static_cast<unsigned char>(text[i])) && text[i] != '_') {
      // A number with its suffix is one token, so that the e of 1e5f is no identifier.
      const bool number = std::isdigit(static_cast<unsigned char>(text[i])) != 0;
      do out += text[i++];
      while (number && i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '.'));
      continue;
    }
    std::string word;
    while (i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_')) word += text[i++];
    const auto it = names.find(word);
    out += it == names.end() ? word : it->second;
  }
  return out;
}

std::string input_name(Chain& chain, const Program::Use& use) {
  for (std::size_t i = 0; i < chain.inputs.size(); ++i)
    if (chain.inputs[i] == use) return fmt::format("x{}", i);
  chain.inputs.push_back(use);
  return fmt::format("x{}", chain.inputs.size() - 1);
}

/// Appends one instruction. @param made  names of what the chain has computed, by slot
void append(Chain& chain, const Program::Instruction& step, std::map<int, std::string>& made) {
  std::map<std::string, std::string> names;
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const auto it = made.find(step.inputs[i].slot);
    names[fmt::format("x{}", i)] = it != made.end() ? it->second : input_name(chain, step.inputs[i]);
  }
  for (const std::string& s : step.op->elementwise->scalars) {
    const std::string name = fmt::format("s{}", chain.text.scalars.size());
    chain.attributes.set(name, step.attributes.real(s));
    chain.text.scalars.push_back(name);
    names[s] = name;
  }
  const std::string temporary = fmt::format("t{}", chain.temporaries++);
  const DType dtype = step.outputs[0].spec.dtype;
  const std::string result = fmt::format("({})({})", opencl_name(dtype), renamed(step.op->elementwise->body, names));
  chain.text.statements += fmt::format("const {} {} = {}; ", opencl_name(dtype), temporary, rounded(dtype, result));
  chain.text.result = temporary;
  chain.text.title += (chain.text.title.empty() ? "" : "+") + step.op->name;
  made[step.outputs[0].slot] = temporary;
}

bool fusible(const Program::Instruction& step) { return is_elementwise(step) && step.op->elementwise->statements.empty(); }

class Fusion {
 public:
  explicit Fusion(Program& program) : program_(program), usage_(usage_of(program)), maker_(makers_of(program)), joins_(program.code.size(), -1) {
    for (std::size_t i = 0; i < program.code.size(); ++i) join_producers(i);
  }

  Program run() {
    std::vector<Program::Instruction> code;
    auto library = std::make_shared<ElementwiseLibrary>();
    for (std::size_t i = 0; i < program_.code.size(); ++i) {
      if (joins_[i] >= 0) continue;  // computed within its consumer
      const auto members = members_of(i);
      code.push_back(members.size() > 1 ? fused(members, library) : std::move(program_.code[i]));
    }
    program_.code = std::move(code);
    return std::move(program_);
  }

 private:
  /// The instruction that a chain ends in.
  std::size_t end_of(std::size_t i) const {
    while (joins_[i] >= 0) i = at(joins_[i]);
    return i;
  }

  std::vector<std::size_t> members_of(std::size_t end) const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i <= end; ++i)
      if (end_of(i) == end) out.push_back(i);
    return out;
  }

  std::size_t inputs_of(const std::vector<std::size_t>& members) const {
    std::vector<Program::Use> distinct;
    for (std::size_t m : members)
      for (const auto& u : program_.code[m].inputs) {
        const int made = maker_[at(u.slot)];
        if (made >= 0 && std::find(members.begin(), members.end(), at(made)) != members.end()) continue;
        if (std::find(distinct.begin(), distinct.end(), u) == distinct.end()) distinct.push_back(u);
      }
    return distinct.size();
  }

  bool any_written_between(const std::vector<std::size_t>& members, std::size_t end) const {
    return std::any_of(members.begin(), members.end(), [&](std::size_t m) { return written_between(program_, members.front(), end, program_.code[m]); });
  }

  void join_producers(std::size_t i) {
    const auto& step = program_.code[i];
    if (!fusible(step)) return;
    for (const auto& u : step.inputs) {
      const int made = maker_[at(u.slot)];
      if (made < 0 || usage_[at(u.slot)].uses != 1 || usage_[at(u.slot)].lasts) continue;
      const auto& producer = program_.code[at(made)];
      if (!fusible(producer) || producer.outputs[0].spec.shape != step.outputs[0].spec.shape || u.spec != producer.outputs[0].spec || u.offset != 0 ||
          recomputed_between(program_, at(made), i))
        continue;
      joins_[at(made)] = static_cast<int>(i);
      const auto members = members_of(i);
      if (inputs_of(members) > kMostInputs || any_written_between(members, i)) joins_[at(made)] = -1;
    }
  }

  Program::Instruction fused(const std::vector<std::size_t>& members, const std::shared_ptr<ElementwiseLibrary>& library) {
    Chain chain;
    std::map<int, std::string> made;
    for (std::size_t m : members) append(chain, program_.code[m], made);
    const auto& last = program_.code[members.back()];
    const Spec out = last.outputs[0].spec;
    Specs in;
    for (const auto& u : chain.inputs) in.push_back(u.spec);
    chain.attributes.set("shape", out.shape);
    chain.attributes.set("dtype", out.dtype);
    return {library->record(chain.text, in, out), chain.attributes, chain.inputs, last.outputs, last.scope, last.after, library};
  }

  Program& program_;
  std::vector<Usage> usage_;
  std::vector<int> maker_;  // [slot] instruction that makes it
  std::vector<int> joins_;  // [instruction] the consumer that computes it, or -1
};

}  // namespace

Program fuse_elementwise(Session& session, Program program) {
  if (!session.has_device()) return program;  // the reference computes records one by one
  return Fusion(program).run();
}

}  // namespace gemel
