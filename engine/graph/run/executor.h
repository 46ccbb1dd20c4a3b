// Executor: runs a program repeatedly in memory that is planned once.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/core/trace.h"
#include "engine/graph/capture/program.h"
#include "engine/graph/run/arena.h"
#include "engine/graph/run/memory_plan.h"

namespace gemel {

class Executor {
 public:
  /// Plans the memory and prepares the launch of each instruction. The session must outlive the executor.
  /// @param own  arena for this program alone, if it runs while another program does (body of a loop); null: the session's arena
  Executor(Session& session, std::shared_ptr<const Program> program, std::unique_ptr<Arena> own = nullptr);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Runs the program. @return results in new memory
  /// @throws ShapeError if the inputs differ from those of the program in number or spec
  /// @throws UsageError for an input of a graph that is being captured
  Values run(const Values& inputs);
  /// Runs the program and copies the results to `outputs`.
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
  void settle();
  void check(const Values& inputs) const;
  void release();
  Value place(const Program::Use& use);
  void fill_in(int slot, const Value& value);
  void allocate_outputs();
  void execute();
  Session& session_;
  std::shared_ptr<const Program> program_;
  MemoryPlan plan_;
  std::unique_ptr<Arena> own_;
  Arena& arena_;
  std::uint64_t generation_ = 0;                    // generation of the arena when the slots were placed
  std::vector<std::shared_ptr<Storage>> storages_;  // [slot] in the arena or external; null for inputs and outputs
  std::vector<std::vector<Patch>> patches_;         // [slot] operands to set to a value that is given at run time
  std::vector<Bound> bound_;                        // [instruction]
  std::vector<Program::Use> results_;               // first use of each slot that gets new memory at each run
  std::vector<Value> made_;                         // [slot] inputs and results of the current run
};

/// Executors by program. Does not keep programs alive: an executor is removed after its program is destroyed.
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
