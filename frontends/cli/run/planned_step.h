// What one step of a model takes, found by capturing and planning it: nothing is computed and no tensor has memory.
#pragma once
#include <cstdint>

#include "engine/base/spec.h"
#include "engine/graph/capture/program.h"
#include "frontends/nn/module.h"
#include "frontends/train/tasks/task.h"

namespace gemel::cli {

/// train: what a training step does before its update; the gradients are outputs. infer: a forward pass in evaluation mode.
enum class Work { train, infer };

/// The step as captured, before any pass. The task's model needs no memory.
/// @param inputs  of the task's tensors, of which the last one, its labels, is left aside by inference
/// @throws ShapeError where a layer refuses what reaches it
Program capture_step(Session& session, train::Task& task, const Specs& inputs, Work work);

/// Whether it can be captured for training: batch normalisation, for one, takes more than one value a channel.
bool trains_on(train::Task& task, const Specs& inputs);

/// Has the device build the programs of a step together and ahead, for the eager front end, which meets them one by one. The executor of a graph does so by
/// itself. Of use where the device's profile says builds_ahead().
void build_step(Session& session, train::Task& task, const Specs& inputs, Work work);

struct PlannedStep {
  std::int64_t flops = 0;            // of all operators, as their records count them
  std::int64_t arena_bytes = 0;      // of activations, their gradients and scratch results that live at once; not of parameters' gradients
  std::int64_t workspace_bytes = 0;  // the most that an operator takes while it runs, on the device that was named
};

/// Of such a program.
/// @param device  whose workspaces count; nullptr: none
PlannedStep plan_step(train::Task& task, const Specs& inputs, Work work, const opencl::Device* device = nullptr);

/// Bytes of parameters and statistics.
std::int64_t state_bytes(nn::Module& model);
/// Bytes of a slab for all parameters: of their gradients, or of what an optimizer keeps for each.
std::int64_t slab_bytes(const nn::Module& model);

}  // namespace gemel::cli
