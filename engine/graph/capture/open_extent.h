// The open extent: left open while a graph is built (kOpenExtent stands for it), and given when it runs.
#pragma once
#include <cstdint>
#include <optional>

#include "engine/graph/capture/program.h"

namespace gemel {

bool is_open(const Spec& spec);
/// Whether an input or an instruction depends on the open extent.
bool is_open(const Program& program);

/// The extent that makes `open` the spec that is given; nothing where none does.
std::optional<std::int64_t> extent_between(const Spec& open, const Spec& given);

Spec with_extent(Spec spec, std::int64_t extent);
/// The program as it is built where the extent is known: what is a multiple of the open extent in shapes, offsets and attributes, or its
/// inverse in an attribute (a mean's gradient), follows it. The result is verified.
/// @throws UsageError for what depends on the extent in another way
Program with_extent(const Program& program, std::int64_t extent);

}  // namespace gemel
