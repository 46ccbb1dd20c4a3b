// A pipeline's schedule is data: what each stage does in a step, in order. It is made, proven and timed here without devices or messages.
//
// A model is a chain cut into pieces, each run by one stage; a step's batch is cut into micro-batches. Piece p lies on stage p mod stages, so
// with V pieces a stage (virtual stages) the chain goes around the stages V times; with one, a piece is a stage.
#pragma once
#include <compare>
#include <string>
#include <string_view>
#include <vector>

namespace gemel::parallel {

enum class ScheduleKind {
  gpipe,        // all forwards, then all backwards
  one_f_one_b,  // a backward as soon as there is one: the same bubble, fewer activations held
  interleaved,  // the same with more than one piece a stage: a smaller bubble, more messages
};
/// "gpipe", "1f1b", "interleaved"
std::string_view to_string(ScheduleKind kind);
/// The inverse. @throws UsageError: names those there are
ScheduleKind parse_schedule(std::string_view name);

struct PipelineShape {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int stages = 1;
  int virtual_stages = 1;  // pieces a stage
  int micro_batches = 1;   // one: plain model parallelism

  int pieces() const { return stages * virtual_stages; }
  int stage_of(int piece) const { return piece % stages; }
};
/// @throws UsageError  counts below 1; virtual stages other than 1 with gpipe and 1f1b, below 2 with interleaved; with interleaved,
///                     micro-batches that are no multiple of the stages
void validate(const PipelineShape& shape);

/// One thing that a stage does.
struct Action {
  enum class Kind { forward, backward, send_activation, receive_activation, send_gradient, receive_gradient, update };
  Kind kind;
  int piece = -1;        // that computes, whose result is sent, or that needs what is received; none of an update
  int micro_batch = -1;  // none of an update

  bool is_send() const { return kind == Kind::send_activation || kind == Kind::send_gradient; }
  bool is_receive() const { return kind == Kind::receive_activation || kind == Kind::receive_gradient; }
  friend auto operator<=>(const Action&, const Action&) = default;
};
/// "forward of micro-batch 2 in piece 1", "send of the gradient of micro-batch 2 from piece 1", "update"
std::string to_string(const Action& action);

/// An activation goes from a piece to the next one, a gradient back to the one before it, each across the boundary between them. Messages
/// with one tag (`tag`) are sent and received in the order of micro-batches; those of different tags are not in one order at both ends, so
/// each tag needs an order of its own. No send waits for its receive: see `deadlock_without_buffers`.
struct Schedule {
  int stages, virtual_stages, micro_batches;
  std::vector<std::vector<Action>> actions;  // [stage] in order

  int pieces() const { return stages * virtual_stages; }
  int stage_of(int piece) const { return piece % stages; }
  /// Whether what piece `piece` makes for the next one goes to another stage.
  bool crosses(int piece) const { return stages > 1 && piece >= 0 && piece + 1 < pieces(); }
  /// The piece and the stage at the other end of a send or receive.
  int other_piece(const Action& message) const;
  int peer(const Action& message) const { return stage_of(other_piece(message)); }
  /// Which messages are in one order: 0..2 (pieces - 1) - 1, the same at both ends.
  int tag(const Action& message) const;
};

/// A receive stands directly before the compute that needs it, so whoever runs the schedule begins it ahead of that; a send stands directly
/// behind the compute that makes it, and goes on while the next one computes. There is none where both pieces lie on one stage. Every piece
/// takes forwards and backwards in the order of micro-batches, in all schedules: gradients and running statistics are the same bit for bit.
/// (So GPipe's backwards begin with the first micro-batch, as in PyTorch, and not with the last, as in the paper's figure: the time is the same.)
/// Each stage ends with one update.
/// @throws UsageError  what `validate` refuses
/// Sources: GPipe: Huang et al., GPipe, 2019. 1f1b (PipeDream-flush): Narayanan et al., Memory-efficient pipeline-parallel DNN training, 2021.
///          interleaved: Narayanan et al., Efficient large-scale language model training on GPU clusters using Megatron-LM, SC 2021, section 2.2
Schedule make_schedule(const PipelineShape& shape);

/// An evaluation: forwards without backward passes or an update, all micro-batches through one piece of a stage before its next one.
/// @param shape  of any kind
Schedule make_forward_schedule(const PipelineShape& shape);

/// How many micro-batches' activations each piece of a stage holds, in order of its pieces, at the moments when it holds most: the counts of
/// any other moment are no larger than those of one of these.
std::vector<std::vector<int>> held_at_most(const Schedule& schedule, int stage);
/// The most that a stage holds at once over its pieces: gpipe m, 1f1b min(stages - stage, m).
int held(const Schedule& schedule, int stage);

}  // namespace gemel::parallel
