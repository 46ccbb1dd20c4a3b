// Weight files of fresh models, good ones and such with a tensor of numbers that do not do.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "engine/core/session.h"
#include "frontends/nn/state/state_dict.h"

namespace gemel::testing {

/// @param changed  the float32 tensors all of whose elements become `number`
inline void write_fresh_weights(nn::Module& model, const std::filesystem::path& file, const std::vector<std::string>& changed = {},
                                float number = std::numeric_limits<float>::quiet_NaN()) {
  const auto session = Session::reference();
  model.materialise(*session);
  std::vector<nn::StateEntry> state = nn::state_dict(model);
  for (const std::string& name : changed) {
    const auto entry = std::ranges::find(state, name, &nn::StateEntry::name);
    ASSERT_TRUE(entry != state.end()) << "there is no " << name;
    for (std::size_t at = 0; at < entry->bytes.size(); at += sizeof number) std::memcpy(&entry->bytes[at], &number, sizeof number);
  }
  nn::save_weights(state, file);
}

}  // namespace gemel::testing
