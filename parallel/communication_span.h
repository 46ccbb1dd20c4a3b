// A span: something that a rank communicates, for a trace.
#pragma once
#include <cstdint>
#include <string>

namespace gemel::parallel {

struct Span {
  std::string what;               // "bucket 2", "receive of the activation of micro-batch 0 for piece 1"
  std::int64_t begin_ns, end_ns;  // of the host's steady clock
  std::int64_t bytes;
};

}  // namespace gemel::parallel
