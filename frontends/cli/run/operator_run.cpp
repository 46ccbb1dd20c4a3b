#include "frontends/cli/run/operator_run.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>

#include "engine/device/device_memory.h"
#include "engine/device/dispatch.h"
#include "engine/ops/ops.h"

namespace gemel::cli {
namespace {

Value filled(Session& session, const Spec& spec) {
  if (spec.dtype != DType::float32) return session.tensor(spec, std::vector<std::byte>(static_cast<std::size_t>(spec.bytes())));
  return random_uniform(session, spec.shape, -1, 1);
}

}  // namespace

std::vector<OperatorCase> distinct_operators(const Program& program) {
  std::vector<OperatorCase> cases;
  std::map<std::string, std::size_t> known;
  for (const Program::Instruction& i : program.code) {
    if (i.op->views || i.op->execute) continue;
    OperatorCase c{i.op, i.attributes, {}, {}};
    for (const auto& use : i.inputs) c.in.push_back(use.spec);
    for (const auto& use : i.outputs) c.out.push_back(use.spec);
    const auto [at, fresh] = known.try_emplace(i.op->name + to_string(c.problem()), cases.size());
    if (fresh)
      cases.push_back(std::move(c));
    else
      ++cases[at->second].count;
  }
  return cases;
}

OperatorRun::OperatorRun(Session& session, const OperatorCase& c) : session_(session), case_(c) {
  for (const Spec& s : c.in) in_.push_back(region_of(values_.emplace_back(filled(session, s))));
  for (const Spec& s : c.out) out_.push_back(region_of(values_.emplace_back(session.empty(s))));
}

void OperatorRun::enqueue(const Variant& variant) { launch(session_, variant, case_.problem(), in_, out_); }

double best_seconds(opencl::Device& device, int runs, const std::function<void()>& enqueue) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= runs; ++i) {  // the first builds
    const auto begin = std::chrono::steady_clock::now();
    enqueue();
    device.finish();
    if (i) best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

}  // namespace gemel::cli
