// Ranks that are threads of this process in Horovod's cycles, and tensors in their memory.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/horovod/operations.h"
#include "tests/support/ranks/communicating_ranks.h"

namespace gemel::testing {

using Floats = std::vector<float>;

inline parallel::horovod::Tensor tensor_of(Floats& values) {
  return {parallel::horovod::host_buffer(std::as_writable_bytes(std::span(values))), Shape{std::ssize(values)}, DType::float32};
}

/// Runs the body on ranks that have called init, and shuts down behind it.
inline void run_horovod(int ranks, const parallel::horovod::Options& options, const std::function<void(parallel::horovod::NamedCollectives&)>& body,
                        std::vector<std::string> hosts = {}) {
  run_communicating_ranks(
      ranks,
      [&](parallel::CommunicationThread& communication) {
        parallel::horovod::NamedCollectives horovod(communication, options);
        body(horovod);
        horovod.shutdown();
      },
      std::move(hosts));
}
inline parallel::horovod::Options quick() { return {.cycle_ms = 0.1}; }

}  // namespace gemel::testing
