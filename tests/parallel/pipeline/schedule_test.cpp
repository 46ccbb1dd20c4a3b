// Schedules of pipelines: complete, free of deadlock, with the bubble and the memory of their papers; broken ones are refused.
#include "parallel/pipeline/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/base/philox.h"
#include "parallel/pipeline/schedule_check.h"
#include "parallel/pipeline/simulate.h"
#include "parallel/transport/communicator.h"
#include "tests/support/message_of.h"
#include "tests/support/ranks/schedule_names.h"
#include "tests/support/ranks/unbuffered_sends.h"

namespace gemel::parallel {
namespace {

using testing::deadlock_without_buffers;
using testing::k1f1b;
using testing::kGpipe;
using testing::kInterleaved;
using testing::message_of;
using ActionKind = Action::Kind;

/// Every shape that there is of up to 8 stages, 17 micro-batches and 4 pieces a stage.
void for_all_shapes(const std::function<void(const PipelineShape&, const Schedule&)>& run) {
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 17; ++m)
      for (int v = 1; v <= 4; ++v)
        for (const ScheduleKind kind : {kGpipe, k1f1b, kInterleaved}) {
          if ((kind == kInterleaved) != (v > 1) || (v > 1 && m % p != 0)) continue;
          SCOPED_TRACE(fmt::format("{} of {} stages, {} virtual, {} micro-batches", to_string(kind), p, v, m));
          const PipelineShape shape{kind, p, v, m};
          run(shape, make_schedule(shape));
          if (::testing::Test::HasFailure()) return;
        }
}

SimulatedCosts balanced(const Schedule& schedule, double forward_s, double backward_s) {
  return {std::vector<double>(at(schedule.pieces()), forward_s), std::vector<double>(at(schedule.pieces()), backward_s), {}, {}};
}

std::vector<double> with_last_of(const Schedule& schedule, double size) {
  std::vector<double> out(at(schedule.micro_batches), 1);
  out.back() = size;
  return out;
}

/// "F0.1 B0.1": computes of a stage, as piece and micro-batch.
std::string computes(const Schedule& schedule, int stage) {
  std::vector<std::string> out;
  for (const Action& a : schedule.actions[at(stage)])
    if (a.kind == ActionKind::forward || a.kind == ActionKind::backward)
      out.push_back(fmt::format("{}{}.{}", a.kind == ActionKind::forward ? "F" : "B", a.piece, a.micro_batch));
  return fmt::format("{}", fmt::join(out, " "));
}

std::string refusal(const Schedule& schedule) {
  return message_of<InternalError>([&] { check(schedule); });
}

TEST(PipelineSchedule, names_are_parsed_and_others_refused) {
  for (const ScheduleKind kind : {kGpipe, k1f1b, kInterleaved}) EXPECT_EQ(parse_schedule(to_string(kind)), kind);
  EXPECT_EQ(to_string(k1f1b), "1f1b");
  EXPECT_EQ(message_of<UsageError>([] { parse_schedule("2f2b"); }), "pipeline: there is no schedule '2f2b'; accepted: gpipe, 1f1b, interleaved");
}

TEST(PipelineSchedule, shapes_that_no_schedule_has_are_refused) {
  const auto refused = [](const PipelineShape& shape) { return message_of<UsageError>([&] { make_schedule(shape); }); };
  EXPECT_EQ(refused({k1f1b, 0, 1, 1}), "pipeline: 0 stages; accepted: 1 or more");
  EXPECT_EQ(refused({k1f1b, 2, 0, 1}), "pipeline: 0 virtual stages; accepted: 1 or more");
  EXPECT_EQ(refused({k1f1b, 2, 1, 0}), "pipeline: 0 micro-batches; accepted: 1 or more");
  EXPECT_EQ(refused({kGpipe, 2, 2, 4}), "pipeline: 2 virtual stages with gpipe; accepted: 1, or the schedule interleaved");
  EXPECT_EQ(refused({k1f1b, 2, 3, 4}), "pipeline: 3 virtual stages with 1f1b; accepted: 1, or the schedule interleaved");
  EXPECT_EQ(refused({kInterleaved, 2, 1, 4}), "pipeline: 1 virtual stage with interleaved; accepted: 2 or more, or the schedule 1f1b");
  EXPECT_EQ(refused({kInterleaved, 4, 2, 6}), "pipeline: 6 micro-batches over 4 stages with interleaved; accepted: a multiple of 4");
}

TEST(PipelineSchedule, computes_stand_in_the_order_of_the_papers) {
  const Schedule gpipe = make_schedule({kGpipe, 2, 1, 3});
  EXPECT_EQ(computes(gpipe, 0), "F0.0 F0.1 F0.2 B0.0 B0.1 B0.2");
  EXPECT_EQ(computes(gpipe, 1), "F1.0 F1.1 F1.2 B1.0 B1.1 B1.2");
  const Schedule flush = make_schedule({k1f1b, 3, 1, 4});
  EXPECT_EQ(computes(flush, 0), "F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3");
  EXPECT_EQ(computes(flush, 1), "F1.0 F1.1 B1.0 F1.2 B1.1 F1.3 B1.2 B1.3");
  EXPECT_EQ(computes(flush, 2), "F2.0 B2.0 F2.1 B2.1 F2.2 B2.2 F2.3 B2.3");
  const Schedule interleaved = make_schedule({kInterleaved, 2, 2, 4});
  EXPECT_EQ(computes(interleaved, 0), "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1 B2.2 B2.3 B0.2 B0.3");
  EXPECT_EQ(computes(interleaved, 1), "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 F3.3 B3.3 B1.2 B1.3");
}

TEST(PipelineSchedule, one_micro_batch_is_plain_model_parallelism) {
  const std::vector<Action> first{{ActionKind::forward, 0, 0},
                                  {ActionKind::send_activation, 0, 0},
                                  {ActionKind::receive_gradient, 0, 0},
                                  {ActionKind::backward, 0, 0},
                                  {ActionKind::update}};
  const std::vector<Action> last{{ActionKind::receive_activation, 1, 0},
                                 {ActionKind::forward, 1, 0},
                                 {ActionKind::backward, 1, 0},
                                 {ActionKind::send_gradient, 1, 0},
                                 {ActionKind::update}};
  for (const ScheduleKind kind : {kGpipe, k1f1b}) {
    const Schedule schedule = make_schedule({kind, 2, 1, 1});
    EXPECT_EQ(schedule.actions[0], first);
    EXPECT_EQ(schedule.actions[1], last);
  }
}

TEST(PipelineSchedule, fewer_micro_batches_than_stages_go_up_and_come_back) {
  const Schedule schedule = make_schedule({k1f1b, 4, 1, 2});
  EXPECT_EQ(computes(schedule, 0), "F0.0 F0.1 B0.0 B0.1");
  EXPECT_EQ(computes(schedule, 2), "F2.0 F2.1 B2.0 B2.1");
  EXPECT_EQ(computes(schedule, 3), "F3.0 B3.0 F3.1 B3.1");
  EXPECT_EQ(simulate(schedule, balanced(schedule, 1, 2)).bubble(), 3 / 2.0);
}

TEST(PipelineSchedule, messages_have_the_peer_and_the_tag_of_their_other_end) {
  const Schedule schedule = make_schedule({kInterleaved, 2, 2, 2});
  const Action sent{ActionKind::send_activation, 1, 0}, received{ActionKind::receive_activation, 2, 0};
  EXPECT_EQ(schedule.peer(sent), 0);
  EXPECT_EQ(schedule.peer(received), 1);
  EXPECT_EQ(schedule.tag(sent), 2);
  EXPECT_EQ(schedule.tag(received), 2);
  const Action gradient{ActionKind::send_gradient, 2, 0}, taken{ActionKind::receive_gradient, 1, 0};
  EXPECT_EQ(schedule.peer(gradient), 1);
  EXPECT_EQ(schedule.peer(taken), 0);
  EXPECT_EQ(schedule.tag(gradient), 3);
  EXPECT_EQ(schedule.tag(taken), 3);
}

TEST(PipelineSchedule, all_shapes_are_proven_and_pieces_on_one_stage_send_nothing) {
  for_all_shapes([](const PipelineShape& shape, const Schedule& schedule) {
    ASSERT_NO_THROW(check(schedule));
    int messages = 0;
    for (const auto& actions : schedule.actions) {
      EXPECT_EQ(actions.back().kind, ActionKind::update);
      for (const Action& a : actions) {
        if (!a.is_send() && !a.is_receive()) continue;
        ++messages;
        EXPECT_LT(schedule.tag(a), Communicator::kTags);
      }
    }
    EXPECT_EQ(messages, shape.stages == 1 ? 0 : 4 * (shape.pieces() - 1) * shape.micro_batches);  // two ways, two ends
  });
}

TEST(PipelineSchedule, a_receive_stands_before_its_compute_and_a_send_behind) {
  for_all_shapes([](const PipelineShape&, const Schedule& schedule) {
    for (const auto& actions : schedule.actions)
      for (std::size_t i = 0; i < actions.size(); ++i) {
        const auto [kind, piece, m] = actions[i];
        if (!actions[i].is_send() && !actions[i].is_receive()) continue;
        const bool activation = kind == ActionKind::send_activation || kind == ActionKind::receive_activation;
        EXPECT_EQ(actions[actions[i].is_receive() ? i + 1 : i - 1], (Action{activation ? ActionKind::forward : ActionKind::backward, piece, m}));
      }
  });
}

TEST(PipelineSchedule, the_bubble_of_balanced_stages_is_the_formula_exactly) {
  for_all_shapes([](const PipelineShape& shape, const Schedule& schedule) {
    for (const auto& [forward, backward] : {std::pair(1, 1), {1, 2}, {5, 3}, {1, 7}}) {
      const PipelineTimes times = simulate(schedule, balanced(schedule, forward, backward));
      const int one = shape.virtual_stages * (forward + backward);
      EXPECT_EQ(times.ideal_s, shape.micro_batches * one);
      EXPECT_EQ(times.busy_s, std::vector<double>(at(shape.stages), times.ideal_s));
      EXPECT_EQ(times.total_s - times.ideal_s, (shape.stages - 1) * (forward + backward));
      EXPECT_DOUBLE_EQ(times.bubble(), (shape.stages - 1) / double(shape.virtual_stages * shape.micro_batches));
    }
  });
}

TEST(PipelineSchedule, a_stage_holds_what_the_papers_say) {
  for_all_shapes([](const PipelineShape& shape, const Schedule& schedule) {
    const auto [kind, p, v, m] = shape;
    for (int s = 0; s < p; ++s) {
      const int expected = kind == kGpipe ? m : kind == k1f1b ? std::min(p - s, m) : std::min(2 * (p - s - 1) + (v - 1) * p + 1, m * v);
      EXPECT_EQ(held(schedule, s), expected) << "stage " << s;
    }
  });
  // Of the first piece four with one of the second, or three with two, but never four with two.
  EXPECT_EQ(held_at_most(make_schedule({kInterleaved, 2, 2, 4}), 0), (std::vector<std::vector<int>>{{3, 2}, {4, 1}}));
}

TEST(PipelineSchedule, sends_need_buffers_but_for_gpipe_one_stage_or_one_micro_batch) {
  for_all_shapes([](const PipelineShape& shape, const Schedule& schedule) {
    EXPECT_EQ(deadlock_without_buffers(schedule).empty(), shape.kind == kGpipe || shape.stages == 1 || shape.micro_batches == 1);
  });
  EXPECT_EQ(deadlock_without_buffers(make_schedule({k1f1b, 2, 1, 2})),
            "stage 0: send of the activation of micro-batch 1 from piece 0 waits for receive of the activation of micro-batch 1 for piece 1 of stage 1, "
            "which stands behind send of the gradient of micro-batch 0 from piece 1; "
            "stage 1: send of the gradient of micro-batch 0 from piece 1 waits for receive of the gradient of micro-batch 0 for piece 0 of stage 0, "
            "which stands behind send of the activation of micro-batch 1 from piece 0");
}

TEST(PipelineClock, an_uneven_last_micro_batch_takes_its_part) {
  for (int p = 1; p <= 8; ++p)
    for (int m = 2; m <= 17; ++m)
      for (const double size : {0.25, 0.5, 0.75}) {
        SCOPED_TRACE(fmt::format("{} stages, {} micro-batches, the last {}", p, m, size));
        const double forward = 4, backward = 8;
        const auto bubble_s = [&](ScheduleKind kind) {
          const Schedule schedule = make_schedule({kind, p, 1, m});
          SimulatedCosts costs = balanced(schedule, forward, backward);
          costs.sizes = with_last_of(schedule, size);
          const PipelineTimes times = simulate(schedule, costs);
          EXPECT_EQ(times.ideal_s, (m - 1 + size) * (forward + backward));
          return times.total_s - times.ideal_s;
        };
        // Nothing waits for a last one that is shorter, on its way up or down.
        EXPECT_EQ(bubble_s(kGpipe), (p - 1) * (forward + backward));
        // Of two stages the first one has its last forward or the second one its last backward where the other one's whole would be.
        if (p == 2) {
          EXPECT_EQ(bubble_s(k1f1b), forward + backward - std::min(size * forward, (1 - size) * backward));
        }
      }
}

TEST(PipelineClock, a_smaller_last_micro_batch_never_lengthens_a_step) {
  for_all_shapes([](const PipelineShape&, const Schedule& schedule) {
    SimulatedCosts costs = balanced(schedule, 2, 4);
    const double whole = simulate(schedule, costs).total_s;
    costs.sizes = with_last_of(schedule, 0.5);
    EXPECT_LT(simulate(schedule, costs).total_s, whole);
  });
}

TEST(PipelineClock, transfers_overlap_with_computes_and_queue_where_they_take_longer) {
  for (int p = 2; p <= 5; ++p) {
    const Schedule schedule = make_schedule({kGpipe, p, 1, 6});
    SimulatedCosts costs = balanced(schedule, 3, 5);
    costs.transfer_s.assign(at(p) - 1, 2);
    // Only the first activations on their way up and the last gradients on their way down are waited for.
    EXPECT_EQ(simulate(schedule, costs).total_s, 6 * (3 + 5) + (p - 1) * (3 + 5 + 2 * 2));
    // Longer than any compute: on each way one message behind the other.
    costs.transfer_s.assign(at(p) - 1, 7);
    EXPECT_EQ(simulate(schedule, costs).total_s, p * (3 + 5) + 2 * (p - 1 + 6 - 1) * 7);
  }
}

TEST(PipelineClock, the_slowest_stage_sets_the_ideal_time) {
  const Schedule schedule = make_schedule({k1f1b, 2, 1, 4});
  const PipelineTimes times = simulate(schedule, {{1, 3}, {2, 6}, {}, {}});
  EXPECT_EQ(times.ideal_s, 4 * 9);
  EXPECT_EQ(times.busy_s, (std::vector<double>{4 * 3, 4 * 9}));
  EXPECT_EQ(times.total_s, 4 * 9 + 1 + 2);  // the first stage's first forward and its last backward
  const PipelineTimes updated = simulate(schedule, {{1, 3}, {2, 6}, {}, {}, {5, 20}});
  EXPECT_EQ(updated.total_s, 1 + 4 * 9 + 20) << "the second stage's update lasts longer than what the first one still has to do";
  EXPECT_EQ(updated.busy_s, (std::vector<double>{4 * 3 + 5, 4 * 9 + 20}));
}

/// A send or receive's other end.
Action other_end(const Schedule& schedule, const Action& message) {
  constexpr std::pair<ActionKind, ActionKind> kEnds[] = {{ActionKind::send_activation, ActionKind::receive_activation},
                                                         {ActionKind::send_gradient, ActionKind::receive_gradient}};
  for (const auto& [send, receive] : kEnds) {
    if (message.kind == send) return {receive, schedule.other_piece(message), message.micro_batch};
    if (message.kind == receive) return {send, schedule.other_piece(message), message.micro_batch};
  }
  return message;
}

/// When each stage's actions end, as the longest path through what waits for what: all are raised until none is too early.
std::vector<std::vector<double>> longest_paths(const Schedule& schedule, const SimulatedCosts& costs) {
  std::vector<std::vector<double>> ends;
  for (const auto& actions : schedule.actions) ends.emplace_back(actions.size(), 0.0);
  const auto end_of = [&](const Action& a) {
    const auto& actions = schedule.actions[at(schedule.stage_of(a.piece))];
    return ends[at(schedule.stage_of(a.piece))][at(std::ranges::find(actions, a) - actions.begin())];
  };
  for (bool raised = true; raised;) {
    raised = false;
    for (int s = 0; s < schedule.stages; ++s) {
      double now = 0;
      std::vector<double> sent(at(schedule.stages), 0);  // to each peer
      for (std::size_t i = 0; i < ends[at(s)].size(); ++i) {
        const Action a = schedule.actions[at(s)][i];
        double end = now;
        if (a.kind == ActionKind::forward || a.kind == ActionKind::backward) {
          end += (a.kind == ActionKind::forward ? costs.forward_s : costs.backward_s)[at(a.piece)] * costs.sizes[at(a.micro_batch)];
        } else if (a.is_send()) {
          double& before = sent[at(schedule.peer(a))];
          end = before = std::max(now, before) + costs.transfer_s[at(schedule.tag(a) / 2)] * costs.sizes[at(a.micro_batch)];
        } else if (a.is_receive()) {
          end = std::max(now, end_of(other_end(schedule, a)));
        }
        if (!a.is_send()) now = end;
        raised = raised || end > ends[at(s)][i];
        ends[at(s)][i] = end;
      }
    }
  }
  return ends;
}

TEST(PipelineClock, spans_end_at_the_longest_path_of_uneven_costs) {
  std::uint32_t draws = 0;
  for (const PipelineShape& shape :
       {PipelineShape{kGpipe, 4, 1, 5}, {k1f1b, 1, 1, 3}, {k1f1b, 4, 1, 7}, {k1f1b, 5, 1, 2}, {kInterleaved, 3, 2, 6}, {kInterleaved, 2, 4, 4}})
    for (int repeat = 0; repeat < 20; ++repeat) {
      const Schedule schedule = make_schedule(shape);
      PhiloxStream stream(24, draws++);
      const auto drawn = [&](int count) {
        std::vector<double> out(at(count));
        for (double& value : out) value = 1 + static_cast<double>(stream.below(8));
        return out;
      };
      const SimulatedCosts costs{drawn(shape.pieces()), drawn(shape.pieces()), drawn(shape.pieces() - 1), drawn(shape.micro_batches)};
      const PipelineTimes times = simulate(schedule, costs);
      const auto ends = longest_paths(schedule, costs);
      std::size_t i = 0;
      double latest = 0;
      for (int s = 0; s < shape.stages; ++s)
        for (std::size_t k = 0; k < ends[at(s)].size(); ++k, ++i) {
          EXPECT_EQ(times.spans[i].stage, s);
          EXPECT_EQ(times.spans[i].action, schedule.actions[at(s)][k]);
          EXPECT_LE(times.spans[i].begin_s, times.spans[i].end_s);
          EXPECT_EQ(times.spans[i].end_s, ends[at(s)][k]) << to_string(times.spans[i].action);
          latest = std::max(latest, ends[at(s)][k]);
        }
      EXPECT_EQ(i, times.spans.size());
      EXPECT_EQ(times.total_s, latest);
    }
}

TEST(PipelineClock, costs_of_another_pipeline_are_refused) {
  const Schedule schedule = make_schedule({k1f1b, 2, 1, 2});
  const auto refused = [&](const SimulatedCosts& costs) { return message_of<InternalError>([&] { simulate(schedule, costs); }); };
  EXPECT_EQ(refused({{1}, {1, 1}, {}, {}}), "pipeline: 1 forward times given; accepted: 2");
  EXPECT_EQ(refused({{1, 1}, {1}, {}, {}}), "pipeline: 1 backward times given; accepted: 2");
  EXPECT_EQ(refused({{1, 1}, {1, 1}, {1, 1}, {}}), "pipeline: 2 transfer times given; accepted: 1");
  EXPECT_EQ(refused({{1, 1}, {1, 1}, {}, {1}}), "pipeline: 1 sizes of micro-batches given; accepted: 2");
  EXPECT_EQ(refused({{1, 1}, {1, 1}, {}, {}, {1}}), "pipeline: 1 update times given; accepted: 2");
}

TEST(PipelineCheck, swapped_actions_are_refused_by_what_waits) {
  Schedule schedule = make_schedule({k1f1b, 2, 1, 2});
  std::swap(schedule.actions[1][0], schedule.actions[1][1]);
  EXPECT_EQ(refusal(schedule),
            "pipeline: stage 1: forward of micro-batch 0 in piece 1 waits for receive of the activation of micro-batch 0 for piece 1, which stands behind it");
  schedule = make_schedule({kGpipe, 2, 1, 1});
  std::swap(schedule.actions[1][1], schedule.actions[1][2]);
  EXPECT_EQ(refusal(schedule), "pipeline: stage 1: backward of micro-batch 0 in piece 1 waits for forward of micro-batch 0 in piece 1, which stands behind it");
}

TEST(PipelineCheck, stages_that_wait_for_each_other_are_named_and_those_that_wait_for_them_are_not) {
  Schedule schedule = make_schedule({kGpipe, 3, 1, 1});
  std::swap(schedule.actions[1][2], schedule.actions[1][3]);  // receives a gradient before it sends the activation
  EXPECT_EQ(refusal(schedule),
            "pipeline: stage 1: receive of the gradient of micro-batch 0 for piece 1 waits for send of the gradient of micro-batch 0 from piece 2 of stage 2, "
            "which stands behind receive of the activation of micro-batch 0 for piece 2; "
            "stage 2: receive of the activation of micro-batch 0 for piece 2 waits for send of the activation of micro-batch 0 from piece 1 of stage 1, "
            "which stands behind receive of the gradient of micro-batch 0 for piece 1");
}

TEST(PipelineCheck, incomplete_and_misplaced_actions_are_refused) {
  const Schedule whole = make_schedule({k1f1b, 2, 1, 2});
  const auto refused = [&](const std::function<void(std::vector<Action>&, std::vector<Action>&)>& change) {
    Schedule schedule = whole;
    change(schedule.actions[0], schedule.actions[1]);
    return refusal(schedule);
  };
  EXPECT_EQ(refused([](auto&, auto& last) { last.erase(last.begin()); }),
            "pipeline: stage 1: receive of the activation of micro-batch 0 for piece 1 is missing");
  EXPECT_EQ(refused([](auto&, auto& last) { last.insert(last.begin() + 3, last[2]); }),
            "pipeline: stage 1: backward of micro-batch 0 in piece 1 is there twice");
  EXPECT_EQ(refused([](auto& first, auto&) { first.pop_back(); }), "pipeline: stage 0: update is missing");
  EXPECT_EQ(refused([](auto& first, auto&) { std::swap(first[first.size() - 2], first.back()); }), "pipeline: stage 0: update is not the last action");
  EXPECT_EQ(refused([](auto& first, auto& last) { first[0] = last[1]; }), "pipeline: stage 0: forward of micro-batch 0 in piece 1 has no place there");
  EXPECT_EQ(refused([](auto& first, auto&) { first[0].micro_batch = 2; }), "pipeline: stage 0: forward of micro-batch 2 in piece 0 has no place there");
  EXPECT_EQ(refused([](auto& first, auto&) { first.clear(); }), "pipeline: stage 0: forward of micro-batch 0 in piece 0 is missing");
  Schedule fewer = whole;
  fewer.actions.pop_back();
  EXPECT_EQ(refusal(fewer), "pipeline: a schedule of 2 stages, 1 virtual stages and 2 micro-batches for 1 stages");
}

TEST(PipelineCheck, other_orders_of_micro_batches_and_messages_are_refused) {
  Schedule schedule = make_schedule({kGpipe, 2, 1, 2});
  std::vector<Action>& last = schedule.actions[1];
  const auto place = [&](ActionKind kind, int m) { return std::ranges::find(last, Action{kind, 1, m}); };
  std::iter_swap(place(ActionKind::backward, 0), place(ActionKind::backward, 1));
  EXPECT_EQ(refusal(schedule), "pipeline: stage 1: backward of micro-batch 1 in piece 1 stands before that of micro-batch 0");
  std::iter_swap(place(ActionKind::backward, 0), place(ActionKind::backward, 1));
  std::iter_swap(place(ActionKind::receive_activation, 0), place(ActionKind::receive_activation, 1));
  EXPECT_EQ(refusal(schedule),
            "pipeline: stage 1: receive of the activation of micro-batch 1 for piece 1 stands where that of micro-batch 0 arrives from stage 0");
}

TEST(PipelineCheck, no_action_can_be_left_out_or_doubled) {
  for (const PipelineShape& shape : {PipelineShape{kGpipe, 3, 1, 2}, {k1f1b, 3, 1, 4}, {kInterleaved, 2, 2, 4}}) {
    const Schedule whole = make_schedule(shape);
    for (std::size_t s = 0; s < whole.actions.size(); ++s)
      for (std::size_t i = 0; i < whole.actions[s].size(); ++i) {
        const auto place = static_cast<std::ptrdiff_t>(i);
        Schedule less = whole, more = whole;
        less.actions[s].erase(less.actions[s].begin() + place);
        more.actions[s].insert(more.actions[s].begin() + place, whole.actions[s][i]);
        EXPECT_THROW(check(less), InternalError) << to_string(whole.actions[s][i]);
        EXPECT_THROW(check(more), InternalError) << to_string(whole.actions[s][i]);
      }
  }
}

}  // namespace
}  // namespace gemel::parallel
