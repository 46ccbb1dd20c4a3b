// Rematerialisation: a result of normalisation, or an activation of it, that waits for a late elementwise reader, mostly in the backward pass, is computed
// again there from the input and statistics of the normalisation, which are kept in any case. The recomputation consists of elementwise operators,
// which fusion joins with the reader. A result that is then fused away in the forward pass is never stored.
#include <algorithm>
#include <iterator>

#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/ops/ops.h"
#include "engine/passes/passes.h"
#include "engine/passes/slot_usage.h"

namespace gemel {
namespace {

class Rematerialisation {
 public:
  explicit Rematerialisation(Program& program)
      : program_(program), usage_(usage_of(program)), makers_(makers_of(program)), readers_(program.slots.size()), before_(program.code.size()) {
    for (std::size_t i = 0; i < program_.code.size(); ++i)
      for (const auto& u : program_.code[i].inputs) readers_[at(u.slot)].push_back(i);
  }

  Program run() {
    for (std::size_t i = 0; i < before_.size(); ++i)
      if (const int norm = normalisation_under(i); norm >= 0) relieve(i, at(norm));
    std::vector<Program::Instruction> code;
    for (std::size_t i = 0; i < before_.size(); ++i) {
      std::move(before_[i].begin(), before_[i].end(), std::back_inserter(code));
      code.push_back(std::move(program_.code[i]));
    }
    program_.code = std::move(code);
    return std::move(program_);
  }

 private:
  using Use = Program::Use;

  /// The normalisation that an instruction is, or is an elementwise function of alone; -1 for others.
  int normalisation_under(std::size_t i) const {
    const Program::Instruction& step = program_.code[i];
    if (step.op == &batch_norm_def()) return static_cast<int>(i);
    if (!is_elementwise(step) || step.inputs.size() != 1) return -1;
    const int made = makers_[at(step.inputs[0].slot)];
    return made < 0 || !reads_all(step.inputs[0], program_.code[at(made)].outputs[0]) || step.inputs[0].spec != step.outputs[0].spec
               ? -1
               : normalisation_under(at(made));
  }

  /// Gives the late readers of what `made` computes, those that other than elementwise work separates from it, results of their own.
  void relieve(std::size_t made, std::size_t norm) {
    const Use y = program_.code[made].outputs[0];
    const std::vector<std::size_t>&readers = readers_[at(y.slot)], &readers_of_x = readers_[at(program_.code[norm].inputs[0].slot)];
    auto late = std::upper_bound(readers.begin(), readers.end(), other_work_after(made));
    if (usage_[at(y.slot)].lasts || late == readers.begin() || late == readers.end() || readers_of_x.back() < readers.back()) return;
    const auto other_or_all = [&](const Use& u) { return u.slot != y.slot || reads_all(u, y); };
    for (auto i = late; i != readers.end(); ++i) {
      const auto& inputs = program_.code[*i].inputs;
      if (!is_elementwise(program_.code[*i]) || !std::all_of(inputs.begin(), inputs.end(), other_or_all)) return;
    }
    if (written_between(program_, norm, readers.back(), program_.code[norm])) return;
    while (late != readers.end()) {  // those that other work separates from one another: each its own
      const Use again = compute_again(made, *late);
      const auto together = std::upper_bound(late, readers.end(), other_work_after(*late));
      for (; late != together; ++late)
        for (Use& u : program_.code[*late].inputs)
          if (u.slot == y.slot) u = again;
    }
  }

  /// As it was made: nothing was written there since.
  static bool reads_all(const Use& use, const Use& made) {
    return use.slot == made.slot && use.offset == 0 && use.spec == made.spec && use.version == made.version;
  }

  std::size_t other_work_after(std::size_t i) const {
    const auto begin = program_.code.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    return static_cast<std::size_t>(std::find_if_not(begin, program_.code.end(), is_elementwise) - program_.code.begin());
  }

  /// @return the result of what computes before `reader` the same as `made`
  Use compute_again(std::size_t made, std::size_t reader) {
    const Program::Instruction& step = program_.code[made];
    if (step.op != &batch_norm_def()) return append(reader, *step.op, step.attributes, {compute_again(at(makers_[at(step.inputs[0].slot)]), reader)});
    const Use &x = step.inputs[0], &gamma = step.inputs[1], &beta = step.inputs[2], &mean = step.outputs[1], &inverse = step.outputs[2];
    const Use scale = append(reader, multiply_def(), {}, {gamma, inverse}), centred = append(reader, subtract_def(), {}, {x, mean});
    return append(reader, add_def(), {}, {append(reader, multiply_def(), {}, {centred, scale}), beta});  // rounded as in its kernel
  }

  /// An instruction before `reader`, whose result is like its first input. @return the result
  Use append(std::size_t reader, const OpDef& op, const Attributes& attributes, std::vector<Use> inputs) {
    const Spec out = inputs[0].spec;
    program_.slots.push_back({out.bytes(), nullptr, "", out});
    makers_.push_back(-1);
    const Use result{static_cast<int>(program_.slots.size()) - 1, out};
    before_[reader].push_back({&op, attributes, std::move(inputs), {result}, program_.code[reader].scope, program_.code[reader].after, nullptr});
    return result;
  }

  Program& program_;
  std::vector<Usage> usage_;
  std::vector<int> makers_;
  std::vector<std::vector<std::size_t>> readers_;          // [slot] instructions, in order
  std::vector<std::vector<Program::Instruction>> before_;  // [instruction] what is computed again for it
};

}  // namespace

Program rematerialise(Session& session, Program program) {
  if (!session.has_device()) return program;  // the reference computes records one by one: nothing joins
  return Rematerialisation(program).run();
}

}  // namespace gemel
