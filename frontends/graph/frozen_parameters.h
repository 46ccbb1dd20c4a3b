// Handles parameters that are frozen or unfrozen after a training operation was added to a graph.
#pragma once
#include <string>
#include <vector>

#include "frontends/graph/graph.h"

namespace gemel::graph {

/// Returns a key for the set of trained parameters that are frozen; empty if none is.
std::string frozen_signature(const Graph& graph);
/// Returns the instructions of training operations that update only frozen parameters, such as updates of rows; they must not run.
std::vector<int> updates_of_frozen(const Graph& graph);
/// Makes updates of slabs with frozen parameters read a page table in which those have no row of hyperparameters.
void skip_frozen(const Graph& graph, Program& program);
/// @throws UsageError for a parameter that was frozen when the operation was added and is not any more: the graph has no gradient for it
void check_not_thawed(const std::string& operation, const Graph::Training& training);

}  // namespace gemel::graph
