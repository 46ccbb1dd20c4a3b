// Operators by themselves on the device.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/core/session.h"
#include "engine/graph/capture/program.h"
#include "opencl/device/device.h"

namespace gemel::cli {

/// One problem, and how often a program has it.
struct OperatorCase {
  const OpDef* op;
  Attributes attributes;
  Specs in, out;
  std::int64_t count = 1;

  Problem problem() const { return {*op, attributes, in, out}; }
};

/// The distinct problems of a program in the order in which they come; views and control flow have none.
std::vector<OperatorCase> distinct_operators(const Program& program);

/// A case with memory for it: floats in [-1, 1), indices of 0.
class OperatorRun {
 public:
  OperatorRun(Session& session, const OperatorCase& c);
  void enqueue(const Variant& variant);

 private:
  Session& session_;
  const OperatorCase& case_;
  Values values_;
  std::vector<opencl::Region> in_, out_;
};

/// The shortest of `runs` calls, at least one, after a first that does not count. Each call waits until the device has finished.
double best_seconds(opencl::Device& device, int runs, const std::function<void()>& enqueue);

}  // namespace gemel::cli
