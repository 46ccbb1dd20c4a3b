// Parameters that are frozen, or thawed, after a training operation was added to a graph.
#pragma once
#include <string>
#include <vector>

#include "frontends/graph/graph.h"

namespace gemel::graph {

/// What tells a plan made with some trained parameters frozen from others; empty where none is.
std::string frozen_signature(const Graph& graph);
/// The training operations' instructions that update a frozen parameter alone, as those of rows do: not to be run.
std::vector<int> updates_of_frozen(const Graph& graph);
/// Where a slab holds frozen parameters, its updates in the program read a page table in which they have no row of hyperparameters.
void skip_frozen(const Graph& graph, Program& program);
/// @throws UsageError for a parameter that was frozen when the operation was added and no longer is: the graph has no gradient for it
void check_not_thawed(const std::string& operation, const Graph::Training& training);

}  // namespace gemel::graph
