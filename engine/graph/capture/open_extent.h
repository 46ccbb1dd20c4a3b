// The open extent: an extent that is unknown while a graph is built (kOpenExtent stands for it) and known when the graph is fed.
#pragma once
#include <cstdint>
#include <optional>

#include "engine/graph/capture/program.h"

namespace gemel {

/// True if an extent of the spec depends on the open extent.
bool is_open(const Spec& spec);
/// True if an input or an instruction depends on the open extent.
bool is_open(const Program& program);

/// The value of the open extent for which `open` equals `given`; empty if there is none.
std::optional<std::int64_t> extent_between(const Spec& open, const Spec& given);

/// Replaces the open extent in a spec.
Spec with_extent(Spec spec, std::int64_t extent);
/// Replaces the open extent in a program: its multiples in shapes, offsets and attributes, and its inverse in attributes (gradient of a mean).
/// Verifies the result.
/// @throws UsageError if the program depends on the extent in another way
Program with_extent(const Program& program, std::int64_t extent);

}  // namespace gemel
