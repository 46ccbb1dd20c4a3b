// Encodes the state of a stage as a message between ranks.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "frontends/train/ranks.h"

namespace gemel::distributed {

/// Encodes a state: the length of the header, the header with all names, then the contents.
std::vector<std::byte> packed(const train::RanksState& state);
/// Decodes a message of `packed`.
/// @throws CommError for any other bytes
train::RanksState unpacked_state(std::span<const std::byte> bytes);

}  // namespace gemel::distributed
