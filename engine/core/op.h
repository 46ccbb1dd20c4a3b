// OpDef: the record that holds everything the engine knows about an operator, so that no code switches over operators.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/spec.h"
#include "engine/core/attributes.h"
#include "engine/core/value.h"

namespace gemel::opencl {
struct DeviceProfile;
}

namespace gemel {

class Backward;
class HostCall;
class Interpreter;
class Launch;

/// One application of an operator before memory is known. The choice of a variant depends on nothing else but the device.
struct Problem {
  const OpDef& op;
  const Attributes& attributes;
  std::span<const Spec> inputs, outputs;
};

/// A problem with its own attributes and specs.
struct OwnedProblem {
  const OpDef& op;
  Attributes attributes;
  Specs inputs, outputs;

  Problem problem() const { return {op, attributes, inputs, outputs}; }
};

struct Cost {
  std::int64_t flops = 0, bytes = 0;
};

/// The kind of device that a variant is made for; `gpu` stands for all but CPUs.
enum class Target { any, cpu, gpu };

/// Facts of a device without which a variant fails or is useless.
struct Needs {
  std::int64_t group_size = 1;  // work-items of a group
  bool private_blocks = false;  // a work-item keeps some KiB near that are its own, as on CPUs
  bool matrix_units = false;    // so its results have the precision that was asked for
};

/// One way to compute an operator on a device.
struct Variant {
  const char* name = "";
  const char* doc = "";
  /// Dispatch takes it for another kind only where nothing else computes the problem. It is right there too, and tests run it.
  Target target = Target::any;
  Needs needs = {};
  /// nullptr where it is right for the problem on this device, else the reason why not. Null: it takes every problem.
  const char* (*declines)(const Problem&, const opencl::DeviceProfile&) = nullptr;
  /// Iterations of the longest loops of one work-item, of which an emulator runs few; asked where it does not decline. Null: they are short.
  std::int64_t (*longest_loop)(const Problem&, const opencl::DeviceProfile&) = nullptr;
  /// How fast it is expected to be among those for the device; the largest wins, the first among equals. Null: 0.
  int (*rank)(const Problem&, const opencl::DeviceProfile&) = nullptr;
  /// Bytes of scratch memory, given to `launch`. Null: none.
  std::int64_t (*workspace_bytes)(const Problem&, const opencl::DeviceProfile&) = nullptr;
  /// The matrix products by which it computes the problem; dispatch chooses a variant of `matmul` for each. Null: none.
  std::vector<OwnedProblem> (*products)(const Problem&, const opencl::DeviceProfile&) = nullptr;
  void (*launch)(Launch&) = nullptr;
};

/// Inputs and outputs that the gradient of one input reads: bit i stands for input or output i.
struct Reads {
  std::uint32_t inputs = 0, outputs = 0;
  constexpr Reads operator|(Reads o) const { return {inputs | o.inputs, outputs | o.outputs}; }
};
constexpr Reads nothing{};
constexpr Reads all_inputs{~0u, 0};
template <class... I>
constexpr Reads inputs(I... i) {
  return {((1u << i) | ...), 0};
}
template <class... I>
constexpr Reads outputs(I... i) {
  return {0, ((1u << i) | ...)};
}

struct Reuse {
  int output, input;
};

class ElementwiseLibrary;
/// An elementwise operator: each output element depends only on the input elements at the same (broadcast) index.
struct Elementwise {
  std::string body;                             // OpenCL C expression of x0, x1, ... and the scalars by name
  std::vector<std::string> scalars{};           // real attributes that the body names; passed as float arguments
  std::string statements{};                     // C statements before the body (fused chains)
  std::string title{};                          // for a fused chain: "multiply+add+relu"
  int flops = 1;                                // per element; the sum over a fused chain
  const ElementwiseLibrary* library = nullptr;  // library that builds its kernels; null: that of the catalog
};

/// Elementwise computation on each element of a product before it is stored. In a fused record its inputs follow those of the product.
struct Epilogue {
  const OpDef* product;
  std::string text;                    // source for kernels (opencl/kernels/lib/epilogue.clh)
  std::vector<std::string> scalars{};  // real attributes; passed as float arguments after the inputs
  int flops = 1;                       // per element
};

struct AttributeDef {
  const char* name;
  Type type;
  const char* doc;
};

/// Distribution of the numbers in a sample's input.
struct Fill {
  enum class Kind { normal, uniform, integers, distinct } kind = Kind::normal;
  double low = -1, high = 1;  // uniform: [low, high); integers: low..high-1; distinct: different numbers from low to high
  double away_from_zero = 0;  // least distance of real values from 0, for functions with a kink there
};
constexpr Fill uniform(double low, double high) { return {Fill::Kind::uniform, low, high, 0}; }
constexpr Fill integers(int low, int high) { return {Fill::Kind::integers, double(low), double(high), 0}; }
constexpr Fill distinct(double low = -2, double high = 2) { return {Fill::Kind::distinct, low, high, 0}; }
constexpr Fill off_zero(double distance = 0.05) { return {Fill::Kind::normal, -1, 1, distance}; }

/// Inputs and attributes with which the generated tests run the operator.
struct Sample {
  Specs inputs;
  Attributes attributes = {};
  std::vector<Fill> fills = {};  // [input]; the last entry also applies to further inputs
};
/// Inputs and attributes that `infer` refuses, with the exact message.
struct Rejected {
  Specs inputs;
  Attributes attributes;
  std::string message;
};

/// Record of an operator. Optional fields are empty or null where they do not apply.
struct OpDef {
  std::string name, doc;
  std::vector<std::string> inputs = {}, outputs = {"y"};  // names, for documentation; an input whose name ends in "..." repeats
  std::vector<AttributeDef> attributes = {};
  Specs (*infer)(const Specs& inputs, const Attributes&) = nullptr;
  Cost (*cost)(const Problem&) = nullptr;
  void (*reference)(const HostCall&) = nullptr;   // the plain definition, in double on the host
  Values (*gradient)(const Backward&) = nullptr;  // null: its outputs never want a gradient
  std::vector<Reads> gradient_reads = {};         // [input]; the last entry also serves the inputs after it
  /// A fused operator's definition in public operators, with its writes; null: none is written. Each result has memory of its own. What a kernel tells
  /// as an error, such as a label out of range, a definition does not tell.
  Values (*composed)(const Values& inputs, const Attributes&) = nullptr;
  bool decomposes = false;  // graphs run `composed` in its place: the operators join those around them
  /// Output 0 elementwise from the inputs and the other outputs, which its gradient keeps anyway. Null: output 0 has to be kept where it is read late.
  Value (*rematerialised)(const Values& inputs, const Values& outputs) = nullptr;
  bool looks_up = false;          // the output is what the indices in input 1 choose of input 0 along the attribute `axis`
  std::vector<int> writes = {};   // inputs updated in place
  std::optional<int> draws = {};  // the input that is the random state, where it is given
  std::vector<Reuse> may_reuse = {};
  std::optional<int> views = {};  // input whose storage output 0 is, under another shape; nothing runs
  std::optional<Elementwise> elementwise = {};
  bool takes_epilogue = false;            // true for a product: each variant also computes an `epilogue`, or declines
  std::optional<Epilogue> epilogue = {};  // set in records that epilogue fusion makes
  const OpDef* adds = nullptr;            // product that this operator adds to its last input (engine/ops/add_product.h)
  std::vector<Variant> variants = {};
  /// Replaces variants and reference in every interpreter, for operators that run captured programs (conditional, loop) or use a State.
  void (*execute)(Interpreter&, const Attributes&, std::span<const Value>, std::span<const Value>) = nullptr;
  std::vector<Sample> (*samples)() = nullptr;
  std::vector<Rejected> (*rejected)() = nullptr;
};

}  // namespace gemel
