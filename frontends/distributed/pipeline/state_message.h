// The state of a stage as a message between ranks.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "frontends/train/ranks.h"

namespace gemel::distributed {

/// The length of a head, which names all, the head, then the contents.
std::vector<std::byte> packed(const train::RanksState& state);
/// @throws CommError where the bytes are none of `packed`'s
train::RanksState unpacked_state(std::span<const std::byte> bytes);

}  // namespace gemel::distributed
