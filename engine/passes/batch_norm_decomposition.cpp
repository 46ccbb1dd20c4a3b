// Batch-norm decomposition: normalisation by the running statistics becomes (x - mean) * scale + beta, with scale = gamma / sqrt(var + eps) for each
// channel. Elementwise fusion joins these operators with what follows, and epilogue fusion joins them with the product before.
#include "engine/ops/ops.h"
#include "engine/passes/passes.h"

namespace gemel {
namespace {

class BatchNormDecomposition {
 public:
  explicit BatchNormDecomposition(Program& program) : program_(program) {}

  Program run() {
    for (Program::Instruction& step : program_.code) {
      if (step.op == &batch_norm_inference_def())
        decompose(step);
      else
        code_.push_back(std::move(step));
    }
    program_.code = std::move(code_);
    return std::move(program_);
  }

 private:
  using Use = Program::Use;

  void decompose(const Program::Instruction& step) {
    const Use &x = step.inputs[0], &gamma = step.inputs[1], &beta = step.inputs[2], &mean = step.inputs[3], &variance = step.inputs[4];
    const Use eps = append(full_def(), {{"shape", Shape{}}, {"dtype", DType::float32}, {"value", step.attributes.real("eps")}}, {}, {}, step);
    const Use inverse = append(rsqrt_def(), {}, {append(add_def(), {}, {variance, eps}, variance.spec, step)}, variance.spec, step);
    const Use scale = append(multiply_def(), {}, {gamma, inverse}, gamma.spec, step);
    const Use centred = append(subtract_def(), {}, {x, mean}, x.spec, step);
    const Use scaled = append(multiply_def(), {}, {centred, scale}, x.spec, step);
    code_.push_back({&add_def(), {}, {scaled, beta}, step.outputs, step.scope, step.after, nullptr});
  }

  /// An instruction whose result is a slot of its own.
  Use append(const OpDef& op, Attributes attributes, std::vector<Use> inputs, const Spec& out, const Program::Instruction& step) {
    program_.slots.push_back({out.bytes(), nullptr, "", out});
    const Use result{static_cast<int>(program_.slots.size()) - 1, out};
    code_.push_back({&op, std::move(attributes), std::move(inputs), {result}, step.scope, step.after, nullptr});
    return result;
  }

  Program& program_;
  std::vector<Program::Instruction> code_;
};

}  // namespace

Program decompose_batch_norm(Session&, Program program) { return BatchNormDecomposition(program).run(); }

}  // namespace gemel
