// OpDef: all that the engine knows of an operator. Every field answers a question that would otherwise need a switch.
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

/// One application, before it runs: all that a variant's choice may depend on.
struct Problem {
  const OpDef& op;
  const Attributes& attributes;
  std::span<const Spec> inputs, outputs;
};

struct Cost {
  std::int64_t flops = 0, bytes = 0;
};

/// One way to compute an operator on a device.
struct Variant {
  const char* name;
  const char* doc;
  /// nullptr where it is right for the problem on this device, else the reason why not.
  const char* (*declines)(const Problem&, const opencl::DeviceProfile&);
  /// How fast it is expected to be; the largest wins, the first among equals. Null: 0.
  int (*rank)(const Problem&, const opencl::DeviceProfile&);
  /// Bytes of scratch memory, given to `launch`. Null: none.
  std::int64_t (*workspace_bytes)(const Problem&, const opencl::DeviceProfile&);
  void (*launch)(Launch&);
};
const char* never_declines(const Problem&, const opencl::DeviceProfile&);

/// What one input's gradient looks at: bit i stands for input or output i.
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

/// An operator whose output element depends on the input elements of the same (broadcast) index alone.
class ElementwiseLibrary;
struct Elementwise {
  std::string body;                             // OpenCL C expression of x0, x1, ... and the scalars by name
  std::vector<std::string> scalars{};           // real attributes that the body names; they become float arguments
  std::string statements{};                     // C statements before the body (fused chains)
  std::string title{};                          // of a fused chain: "multiply+add+relu"
  int flops = 1;                                // an element: one for each member of a chain
  const ElementwiseLibrary* library = nullptr;  // where its kernels are built; null: with the catalog's
};

/// What a fused record computes on each element of a product before it is stored. Its inputs follow the product's.
struct Epilogue {
  const OpDef* product;
  std::string text;                    // for kernels (opencl/kernels/epilogue.clh)
  std::vector<std::string> scalars{};  // real attributes that become float arguments after the inputs
  int flops = 1;                       // an element
};

struct AttributeDef {
  const char* name;
  Type type;
  const char* doc;
};

/// How a sample's input is filled with numbers.
struct Fill {
  enum class Kind { normal, uniform, integers, distinct } kind = Kind::normal;
  double low = -1, high = 1;  // uniform: [low, high); integers: low..high-1; distinct: that range, no two alike
  double away_from_zero = 0;  // real values keep this distance from 0, where a kink is
};
constexpr Fill uniform(double low, double high) { return {Fill::Kind::uniform, low, high, 0}; }
constexpr Fill integers(int low, int high) { return {Fill::Kind::integers, double(low), double(high), 0}; }
constexpr Fill distinct(double low = -2, double high = 2) { return {Fill::Kind::distinct, low, high, 0}; }
constexpr Fill off_zero(double distance = 0.05) { return {Fill::Kind::normal, -1, 1, distance}; }

/// Inputs on which the generated tests run the operator.
struct Sample {
  Specs inputs;
  Attributes attributes = {};
  std::vector<Fill> fills = {};  // [input]; the last serves the inputs after it
};
/// Inputs that `infer` refuses, with the exact text of the refusal.
struct Rejected {
  Specs inputs;
  Attributes attributes;
  std::string message;
};

struct OpDef {
  std::string name, doc;
  std::vector<std::string> inputs = {}, outputs = {"y"};  // names, for documentation; an input ending in "..." repeats
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
  std::optional<int> views = {};  // output 0 is this input's storage under another shape; nothing runs
  std::optional<Elementwise> elementwise = {};
  bool takes_epilogue = false;            // a product: each variant also computes `epilogue`, or declines it
  std::optional<Epilogue> epilogue = {};  // of a record that epilogue fusion made
  const OpDef* adds = nullptr;            // the product that it adds to its last input (engine/ops/add_product.h); its variants compute both
  std::vector<Variant> variants = {};
  /// Runs captured programs (conditional, while) or works with a State: in place of variants and reference, in every interpreter.
  void (*execute)(Interpreter&, const Attributes&, std::span<const Value>, std::span<const Value>) = nullptr;
  std::vector<Sample> (*samples)() = nullptr;
  std::vector<Rejected> (*rejected)() = nullptr;
};

}  // namespace gemel
