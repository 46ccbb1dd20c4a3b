// Span: a communication of a rank with its times, for a Chrome trace.
#pragma once
#include <cstdint>
#include <string>

namespace gemel::parallel {

struct Span {
  std::string what;               // "bucket 2", "receive of the activation of micro-batch 0 for piece 1"
  std::int64_t begin_ns, end_ns;  // host's steady clock
  std::int64_t bytes;
};

}  // namespace gemel::parallel
