// Epilogue fusion: the kernel of a product (convolution, matrix product, batch normalisation) also computes the elementwise operator, or fused chain,
// that follows. The output of the product must have no other user; the product moves to the place of the elementwise operator. Other operands
// have the shape of the product, one value for each column, or one value.
// Fuses only if dispatch chooses the same variant for the fused record as for the product alone.
#include <algorithm>

#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/device/dispatch.h"
#include "engine/ops/epilogue.h"
#include "engine/passes/passes.h"
#include "engine/passes/slot_usage.h"

namespace gemel {
namespace {

Specs specs_of(const std::vector<Program::Use>& uses) {
  Specs out;
  for (const auto& u : uses) out.push_back(u.spec);
  return out;
}

std::string_view choice_for(const Program::Instruction& step, const opencl::DeviceProfile& profile) {
  const Specs in = specs_of(step.inputs), out = specs_of(step.outputs);
  return choose({*step.op, step.attributes, in, out}, profile).name;
}

bool takes(const Program::Instruction& step, std::string_view variant, const opencl::DeviceProfile& profile) {
  const Specs in = specs_of(step.inputs), out = specs_of(step.outputs);
  return takes(Problem{*step.op, step.attributes, in, out}, variant, profile);
}

/// The columns of both are the same, so that flat indices and columns mean the same element.
bool same_matrix(const Spec& a, const Spec& b) {
  return a.dtype == DType::float32 && b.dtype == DType::float32 && a.elements() == b.elements() && a.elements() > 0 && a.shape.rank() > 0 &&
         b.shape.rank() > 0 && a.shape.back() == b.shape.back();
}

class EpilogueFusion {
 public:
  EpilogueFusion(Program& program, const opencl::DeviceProfile& profile)
      : program_(program), profile_(profile), usage_(usage_of(program)), maker_(makers_of(program)), absorbed_(program.code.size(), false) {}

  Program run() {
    for (std::size_t i = 0; i < program_.code.size(); ++i)
      if (is_elementwise(program_.code[i])) absorb(i);
    std::vector<Program::Instruction> code;
    for (std::size_t i = 0; i < program_.code.size(); ++i)
      if (!absorbed_[i]) code.push_back(std::move(program_.code[i]));
    program_.code = std::move(code);
    return std::move(program_);
  }

 private:
  /// Of several products, the last one computed moves least. A product may store parts of its result before the last one, so what
  /// is filled must not be read.
  void absorb(std::size_t consumer) {
    const auto& inputs = program_.code[consumer].inputs;
    const int made = program_.code[consumer].outputs[0].slot;
    if (std::ranges::any_of(inputs, [&](const auto& u) { return overlap(program_, u.slot, made); })) return;
    std::vector<std::pair<int, std::size_t>> products;  // instruction, input of the consumer
    for (std::size_t k = 0; k < inputs.size(); ++k)
      if (is_free_product(inputs[k], consumer)) products.emplace_back(maker_[at(inputs[k].slot)], k);
    std::sort(products.rbegin(), products.rend());
    for (const auto& [product, k] : products) {
      auto fused = fusion_of(program_.code[at(product)], program_.code[consumer], k);
      if (!fused) continue;
      program_.code[consumer] = std::move(*fused);
      absorbed_[at(product)] = true;
      return;
    }
  }

  bool is_free_product(const Program::Use& use, std::size_t consumer) const {
    const int made = maker_[at(use.slot)];
    if (made < 0 || usage_[at(use.slot)].uses != 1 || usage_[at(use.slot)].lasts || use.offset != 0) return false;
    const auto& product = program_.code[at(made)];
    return product.op->takes_epilogue && use.slot == product.outputs[0].slot && same_matrix(product.outputs[0].spec, program_.code[consumer].outputs[0].spec) &&
           use.spec.elements() == product.outputs[0].spec.elements() && may_move(at(made), consumer);
  }

  /// Nothing between reads what the product makes or writes, or writes what it reads.
  bool may_move(std::size_t product, std::size_t to) const {
    const auto& moved = program_.code[product];
    std::vector<int> made;
    for (const auto& u : moved.outputs) made.push_back(u.slot);
    for (int w : written_by(program_, moved)) made.push_back(w);
    for (std::size_t i = product + 1; i < to; ++i)
      for (const auto& u : program_.code[i].inputs)
        if (std::ranges::any_of(made, [&](int slot) { return overlap(program_, slot, u.slot); })) return false;
    return !written_between(program_, product, to, moved) && !recomputed_between(program_, product, to);
  }

  std::optional<Program::Instruction> fusion_of(const Program::Instruction& product, const Program::Instruction& elementwise, std::size_t k) const {
    std::vector<Reach> reach;
    Program::Instruction fused{nullptr, product.attributes, product.inputs, product.outputs, product.scope, product.after, nullptr};
    for (std::size_t i = 0; i < elementwise.inputs.size(); ++i) {
      const auto& use = elementwise.inputs[i];
      const auto is_this = [&](const Program::Use& made) { return made.slot == use.slot; };
      if (i != k && std::ranges::any_of(product.outputs, is_this)) return std::nullopt;
      const auto found = i == k ? Reach::product : reach_of(use.spec.shape, elementwise.outputs[0].spec.shape);
      if (!found) return std::nullopt;
      reach.push_back(*found);
      if (i != k) fused.inputs.push_back(use);
    }
    for (const std::string& s : elementwise.op->elementwise->scalars) fused.attributes.set(s, elementwise.attributes.real(s));
    fused.outputs[0].slot = elementwise.outputs[0].slot;
    const auto record = epilogue_record(*product.op, *elementwise.op, specs_of(elementwise.inputs), reach);
    fused.op = record.get();
    fused.owner = record;
    const std::string_view chosen = choice_for(product, profile_);
    if (!takes(fused, chosen, profile_) || choice_for(fused, profile_) != chosen) return std::nullopt;
    return fused;
  }

  Program& program_;
  const opencl::DeviceProfile& profile_;
  std::vector<Usage> usage_;
  std::vector<int> maker_;
  std::vector<bool> absorbed_;  // [instruction]
};

}  // namespace

Program fuse_epilogues(Session& session, Program program) {
  if (!session.has_device()) return program;  // the reference computes records one by one
  return EpilogueFusion(program, session.device().profile()).run();
}

}  // namespace gemel
