// Executor: runs a program, again and again, in memory that was planned once.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/plan.h"
#include "engine/program.h"
#include "engine/trace.h"

namespace gemel {

class Executor {
 public:
  /// @param interpreter  computes the instructions: eager's device, or the host reference
  Executor(Session& session, std::shared_ptr<const Program> program);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Runs with these inputs; results are in memory of their own.
  /// @throws ShapeError inputs that differ from the program's in number or spec
  Values run(const Values& inputs);
  /// The same, results copied into memory that is there.
  void run(std::span<const Value> inputs, std::span<const Value> outputs);

  const Program& program() const { return *program_; }
  const MemoryPlan& plan() const { return plan_; }

 private:
  struct Bound;
  struct Patch {
    std::size_t instruction, index;
    bool output;
  };
  void bind();
  Value place(const Program::Use& use);
  void fill_in(int slot, const Value& value);
  void allocate_outputs();
  void execute();
  Session& session_;
  std::shared_ptr<const Program> program_;
  MemoryPlan plan_;
  std::vector<std::shared_ptr<Memory>> slabs_;
  std::vector<std::shared_ptr<Storage>> storages_;    // [slot]: arena and external; null for inputs and outputs
  std::vector<std::vector<Patch>> patches_;           // [slot]: where a value given at run time goes
  std::vector<Bound> bound_;                          // [instruction]
  std::vector<Value> made_;                           // [slot]: outputs of the run under way
};

/// Executors by program. It does not keep the programs: an executor goes once its program has gone.
class ExecutorCache {
 public:
  Executor& find(Session& session, const std::shared_ptr<const Program>& program);

 private:
  struct Entry {
    std::weak_ptr<const Program> program;
    std::unique_ptr<Executor> executor;
  };
  std::map<const Program*, Entry> entries_;
};

}  // namespace gemel
