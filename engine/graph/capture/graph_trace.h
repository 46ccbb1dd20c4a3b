// GraphTrace: appends an instruction to a program for each application of an operator. `capture` uses one during a call; a graph that is built step
// by step keeps one and puts it in force repeatedly.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/core/session.h"
#include "engine/graph/capture/program.h"

namespace gemel {

class GraphTrace : public Trace {
 public:
  /// @param name  name of the graph in errors
  GraphTrace(Session& session, Outside outside, std::string name = "graph");
  ~GraphTrace() override;

  /// Adds an input to the program. In a body (Outside::passed) a floating-point input is a leaf. A named input is a placeholder, which no
  /// instruction may write.
  Value input(const Spec& spec, std::string name = "");
  void run(const OpDef& op, const Attributes& attributes, Values& inputs, Values& outputs) override;
  bool differentiates_by_replay() const override { return outside_ != Outside::bound; }
  /// Use of a value in the program. Adds a value from outside to the program.
  /// @param who  begins the message
  /// @throws UsageError for a value of another graph or a row gradient
  Program::Use use(const Value& value, const std::string& who);
  /// Names the slot of a value, for listings and files.
  void name_slot(const Value& value, const std::string& name);
  /// True if the storage of the value has a slot in the program.
  bool knows(const Value& value) const { return slot_of_.count(value.storage()) != 0; }
  std::size_t instructions() const override { return program_.code.size(); }
  void assume(std::function<bool()> still_holds) override;
  std::uint64_t nodes_before() const override { return outside_ == Outside::passed ? enclosing_.nodes_before() : first_node_; }

  const Program& program() const { return program_; }
  const std::string& name() const { return *name_; }
  /// Random state of draws while the graph is in force.
  Random& random() { return random_; }
  /// State of the recording, to restore after a failure.
  struct Mark {
    Program program;
    std::map<std::shared_ptr<Storage>, int> slot_of;
    std::map<std::shared_ptr<Storage>, Writes> writes;
    Random random;
  };
  Mark mark() { return {program_, slot_of_, writes_, random()}; }
  /// Restores a state. Not for bodies (Outside::passed).
  void back_to(Mark mark);
  /// Ends the recording. @return the program, with these outputs
  Program finish(const Values& outputs);

  /// Scope in which the trace is in force; scopes of one trace must not nest. Versions and random state are those of the graph, so the session's stay
  /// unchanged. Ends early if the graph is destroyed.
  class InForce {
   public:
    explicit InForce(GraphTrace& graph);
    ~InForce() { end(); }
    InForce(const InForce&) = delete;
    InForce& operator=(const InForce&) = delete;

   private:
    friend class GraphTrace;
    void end();
    GraphTrace* graph_;  // null once it has ended
    std::optional<TraceScope> trace_;
    std::optional<RandomScope> random_;
  };
  bool in_force() const { return in_force_ != nullptr; }

  /// Instructions that overwrote external memory which the gradient of `outputs` with respect to `inputs` reads. Leaves out instructions that
  /// everything recorded now runs after anyway.
  std::vector<int> changes_since(const Values& outputs, const Values& inputs);
  /// Scope in which recorded instructions run before the given ones, and read memory as it was before these changed it.
  class AsBefore {
   public:
    AsBefore(GraphTrace& graph, std::vector<int> changes);
    ~AsBefore();
    AsBefore(const AsBefore&) = delete;
    AsBefore& operator=(const AsBefore&) = delete;

   private:
    template <class F>
    void each_write(F f);
    GraphTrace& graph_;
    std::vector<int> changes_;
    std::size_t first_;
  };

 protected:
  /// Counts the writes that the program records. Runs of the program and writes by others do not make its histories stale.
  Writes& writes(const std::shared_ptr<Storage>& storage) override;

 private:
  int define(const Value& v, std::string name = "");
  Program::Use use_bound(const Value& v, const std::string& who);
  Program::Use use_passed(const Value& v);
  Program::Use made(const OpDef& op, const Value& v);
  void assume_of_leaf(const Value& v);
  void check_draw(const OpDef& op, const Program::Instruction& step, const Values& in) const;
  void check_writes(const OpDef& op, const Program::Instruction& step, const Values& in) const;
  bool has_history(const Value& v) const;

  /// Identity of a value from outside: storage, offset, shape, element type, node and output of the node.
  using Foreign = std::tuple<std::shared_ptr<Storage>, std::int64_t, std::vector<std::int64_t>, DType, const Node*, int>;
  Session& session_;
  Outside outside_;
  std::shared_ptr<const std::string> name_;
  Program program_;
  std::map<std::shared_ptr<Storage>, int> slot_of_;  // keeps the storages alive, so that their addresses are not reused
  std::map<Foreign, int> foreign_;                   // slots of values from outside that are passed as inputs
  std::uint64_t first_node_;
  std::map<std::shared_ptr<Storage>, Writes> writes_;  // writes to external memory, if the program may write it
  Trace& enclosing_;                                   // trace in force when the recording began
  std::set<const Node*> arguments_;
  std::set<std::uint64_t> leaves_;  // numbers of leaves from outside that the program reads
  InForce* in_force_ = nullptr;
  Random random_;
};

}  // namespace gemel
