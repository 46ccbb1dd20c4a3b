// Embedding: rows of a table by their indices.
#include <utility>

#include "engine/functions/functions.h"
#include "engine/ops/common.h"
#include "engine/ops/index/index_operators.h"

namespace gemel::inline ops {

Value embedding(Value weight, Value indices) {
  check_rank("embedding", "weight", weight.spec(), 2);
  return gather(std::move(weight), std::move(indices), 0);
}

const FunctionDef& embedding_def() {
  static const FunctionDef def{
      .name = "embedding",
      .doc = "Rows of weight [V, D] by indices [...]: [..., D].",
      .inputs = {"weight", "indices"},
      .definition = [](const Values& in, const Attributes&) { return embedding(in[0], in[1]); },
      .samples =
          [] {
            return std::vector<Sample>{{{f32({7, 5}), i64({4})}, {}, {Fill{}, integers(0, 7)}}, {{f32({3, 2}), i32({2, 3})}, {}, {Fill{}, integers(0, 3)}}};
          },
  };
  return def;
}

}  // namespace gemel::inline ops
