// Executor: runs a program, again and again, in memory that was planned once.
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
  /// Plans memory, chooses every instruction's kernel. The session must outlive it.
  /// @param own  an arena for this plan alone: of a program that runs while another does (a loop's body). Null: the session's
  Executor(Session& session, std::shared_ptr<const Program> program, std::unique_ptr<Arena> own = nullptr);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Runs with these inputs; results are in memory of their own.
  /// @throws ShapeError inputs that differ from the program's in number or spec
  /// @throws UsageError an input from a graph that is being captured
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
  std::uint64_t generation_ = 0;                    // of the arena when the slots were placed in it
  std::vector<std::shared_ptr<Storage>> storages_;  // [slot]: arena and external; null for inputs and outputs
  std::vector<std::vector<Patch>> patches_;         // [slot]: where a value given at run time goes
  std::vector<Bound> bound_;                        // [instruction]
  std::vector<Program::Use> results_;               // slots that get memory of their own at each run, by their first use
  std::vector<Value> made_;                         // [slot]: inputs and results of the run under way
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
