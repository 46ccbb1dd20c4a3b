// The graph interpreter: appends an instruction for each application. A capture is one that lives for a call; a graph that
// is built bit by bit keeps one and puts it in force again and again.
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
  /// @param name  what errors call the graph
  GraphTrace(Session& session, Outside outside, std::string name = "graph");
  ~GraphTrace() override;

  /// A further input of the program. In a body (Outside::passed) it wants a gradient where its type allows. One with a name is a placeholder,
  /// which nothing may write.
  Value input(const Spec& spec, std::string name = "");
  void run(const OpDef& op, const Attributes& attributes, Values& inputs, Values& outputs) override;
  bool differentiates_by_replay() const override { return outside_ != Outside::bound; }
  /// How the program refers to a value; one from outside becomes known by it.
  /// @param who  for the message  @throws UsageError a value of another graph
  Program::Use use(const Value& value, const std::string& who);
  /// Names a value's slot, for listings and files.
  void name_slot(const Value& value, const std::string& name);
  /// Whether the program makes or knows the value.
  bool knows(const Value& value) const { return slot_of_.count(value.storage()) != 0; }
  std::size_t instructions() const override { return program_.code.size(); }
  void assume(std::function<bool()> still_holds) override;
  std::uint64_t nodes_before() const override { return outside_ == Outside::passed ? enclosing_.nodes_before() : first_node_; }

  const Program& program() const { return program_; }
  const std::string& name() const { return *name_; }
  /// Where draws take their state from while the graph is in force.
  Random& random() { return random_; }
  /// All that was recorded, to go back to where what follows is refused.
  struct Mark {
    Program program;
    std::map<std::shared_ptr<Storage>, int> slot_of;
    std::map<std::shared_ptr<Storage>, Writes> writes;
    Random random;
  };
  Mark mark() { return {program_, slot_of_, writes_, random()}; }
  /// Only where values are bound, not passed.
  void back_to(Mark mark);
  /// The program with these outputs, moved out.
  Program finish(const Values& outputs);

  /// Puts the trace in force; not while it is. Versions and the random state are the graph's own:
  /// outside of it nothing was written and nothing drawn. Where the graph goes first, it is in force no longer.
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

  /// The instructions that changed, in memory from outside, what the gradient of these outputs reads as it was before: without those that
  /// all must run after now.
  std::vector<int> changes_since(const Values& outputs, const Values& inputs);
  /// While it lives, what is recorded reads memory as it was before these instructions changed it, and runs before them.
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
  /// Writes are counted as the program makes them: neither its runs nor what others write in between make a history stale.
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

  /// A tensor and a history: storage, offset, spec, node and which of its outputs. One storage may hold many of each.
  using Foreign = std::tuple<std::shared_ptr<Storage>, std::int64_t, std::vector<std::int64_t>, DType, const Node*, int>;
  Session& session_;
  Outside outside_;
  std::shared_ptr<const std::string> name_;
  Program program_;
  std::map<std::shared_ptr<Storage>, int> slot_of_;  // holds the storage, so its address stays its own
  std::map<Foreign, int> foreign_;                   // slots of values from outside that are passed
  std::uint64_t first_node_;
  std::map<std::shared_ptr<Storage>, Writes> writes_;  // of memory from outside, where this program may write it
  Trace& enclosing_;                                   // in force when a body was begun
  std::set<const Node*> arguments_;
  std::set<std::uint64_t> leaves_;  // nodes of leaves from outside that it reads
  InForce* in_force_ = nullptr;
  Random random_;
};

}  // namespace gemel
