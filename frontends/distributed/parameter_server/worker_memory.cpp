#include "frontends/distributed/parameter_server/worker_memory.h"

#include <memory>

namespace gemel::distributed {

HostMemorySource WorkerMemory::source(std::int64_t first) const {
  return [memory = memory_, next = std::make_shared<std::int64_t>(first)](std::int64_t bytes) {  // of which each slab has a copy
    const HostBytes out{std::shared_ptr<std::byte>(memory.first, memory.first.get() + *next), bytes};
    *next += bytes;
    return out;
  };
}

}  // namespace gemel::distributed
