// What the examples of loops of one's own fit: the sign of a product of two numbers.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "frontends/eager/eager.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/layers/parameterless_layers.h"

using namespace gemel;

struct Net : nn::Module {
  nn::Linear& hidden = add<nn::Linear>("hidden", 2, 16);
  nn::Linear& output = add<nn::Linear>("output", 16, 2);
  Value forward(Value x) override { return output(relu(hidden(std::move(x)))); }
};

struct Batch {
  eager::Tensor x, y;
};

/// Each rank's samples of a step: the ranks take them in turn.
inline Batch batch_of(Session& session, int step, int rank, int ranks) {
  std::vector<float> x;
  std::vector<std::int64_t> y;
  for (int i = rank; i < 48; i += ranks) {
    const float a = float((37 * (i + 48 * step)) % 11 - 5), b = float((53 * (i + 48 * step)) % 13 - 6);
    x.insert(x.end(), {a, b});
    y.push_back(a * b > 0);
  }
  const auto n = std::int64_t(y.size());
  return {eager::from_host(session, std::span<const float>(x), {n, 2}), eager::from_host(session, std::span<const std::int64_t>(y), {n})};
}
