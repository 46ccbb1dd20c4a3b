// Schedule: what each stage of a pipeline does in a step, in order. A schedule is data: it is made, checked and simulated without devices.
//
// A model is a chain cut into pieces, each run by one stage; a step's batch is cut into micro-batches. Piece p is on stage p mod stages. With V pieces a stage
// (virtual stages) the chain passes through all stages V times.
#pragma once
#include <compare>
#include <string>
#include <string_view>
#include <vector>

namespace gemel::parallel {

enum class ScheduleKind {
  gpipe,        // all forward passes, then all backward passes
  one_f_one_b,  // a backward pass as soon as there is one: the same bubble, fewer activations in memory
  interleaved,  // 1f1b with several pieces a stage: a smaller bubble, more messages
};
/// "gpipe", "1f1b", "interleaved"
std::string_view to_string(ScheduleKind kind);
/// Parses a name of to_string.
/// @throws UsageError for any other name, lists the names
ScheduleKind parse_schedule(std::string_view name);

struct PipelineShape {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int stages = 1;
  int virtual_stages = 1;  // pieces of each stage
  int micro_batches = 1;   // 1: plain model parallelism

  int pieces() const { return stages * virtual_stages; }
  int stage_of(int piece) const { return piece % stages; }
};
/// @throws UsageError for counts below 1; for virtual stages other than 1 with gpipe and 1f1b, or below 2 with interleaved; with interleaved, for a number of
///   micro-batches that is not a multiple of the stages
void validate(const PipelineShape& shape);

/// An action of a stage.
struct Action {
  enum class Kind { forward, backward, send_activation, receive_activation, send_gradient, receive_gradient, update };
  Kind kind;
  int piece = -1;        // piece that computes, sends its result, or needs what is received; -1 for update
  int micro_batch = -1;  // -1 for update

  bool is_send() const { return kind == Kind::send_activation || kind == Kind::send_gradient; }
  bool is_receive() const { return kind == Kind::receive_activation || kind == Kind::receive_gradient; }
  friend auto operator<=>(const Action&, const Action&) = default;
};
/// "forward of micro-batch 2 in piece 1", "send of the gradient of micro-batch 2 from piece 1", "update"
std::string to_string(const Action& action);

/// The actions of all stages. An activation is sent from a piece to the next one, a gradient to the one before. Messages of one tag are sent and received in
/// the order of micro-batches. Messages of different tags may be in different orders at both ends, so transports must keep tags apart. No send may wait for its
/// receive: in 1f1b a stage sends an activation while the next one sends a gradient back.
struct Schedule {
  int stages, virtual_stages, micro_batches;
  std::vector<std::vector<Action>> actions;  // [stage] in order

  int pieces() const { return stages * virtual_stages; }
  int stage_of(int piece) const { return piece % stages; }
  /// True if the output of a piece is sent to another stage.
  bool crosses(int piece) const { return stages > 1 && piece >= 0 && piece + 1 < pieces(); }
  /// Piece and stage at the other end of a send or receive.
  int other_piece(const Action& message) const;
  int peer(const Action& message) const { return stage_of(other_piece(message)); }
  /// Tag of a message, 0..2 (pieces - 1) - 1, the same at both ends. Messages of one tag arrive in order.
  int tag(const Action& message) const;
};

/// Makes the schedule of a training step. A receive stands directly before the computation that needs it, so that whoever runs the schedule can begin it
/// earlier. A send stands directly after the computation that makes its data, and overlaps with the next one. There are no messages between pieces of one
/// stage. Each stage ends with one update.
/// In all schedules every piece takes forward and backward passes in the order of micro-batches, so that gradients and running statistics have the same bits.
/// (GPipe's backward passes thus begin with the first micro-batch, as in PyTorch, not with the last, as in the paper's figure; the time is the same.)
/// @throws UsageError for a shape that `validate` refuses
/// Sources: GPipe: Huang et al., GPipe, 2019. 1f1b (PipeDream-flush): Narayanan et al., Memory-efficient pipeline-parallel DNN training, 2021.
///          interleaved: Narayanan et al., Efficient large-scale language model training on GPU clusters using Megatron-LM, SC 2021, section 2.2
Schedule make_schedule(const PipelineShape& shape);

/// Makes the schedule of an evaluation: forward passes alone; a stage runs all micro-batches through one piece before its next piece.
/// @param shape  of any kind
Schedule make_forward_schedule(const PipelineShape& shape);

/// Returns the numbers of micro-batches whose activations each piece of a stage holds, [moment][piece], at the moments of peak memory: at any other moment the
/// numbers are at most those of one of these.
std::vector<std::vector<int>> held_at_most(const Schedule& schedule, int stage);
/// Returns the largest number of activations that a stage holds at once over its pieces: gpipe m, 1f1b min(stages - stage, m).
int held(const Schedule& schedule, int stage);

}  // namespace gemel::parallel
