// WorkerMemory: memory of a worker that servers of the same machine see, in which they read its gradients and write its parameters.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/host_view.h"
#include "engine/parameters/parameter_slab.h"

namespace gemel::distributed {

/// Pages of all parameters, as SlabShards has them; those of their gradients; and room for what proves that it is this memory. The worker does not touch it
/// from where it sends a gradient until every server has sent parameters.
class WorkerMemory {
 public:
  /// Bytes of the memory for so many bytes of pages.
  static std::int64_t bytes_for(std::int64_t pages) { return 2 * pages + kHostPage; }

  WorkerMemory() = default;
  /// @param memory  of bytes_for(pages), or empty
  WorkerMemory(HostBytes memory, std::int64_t pages) : memory_(std::move(memory)), pages_(pages) {}
  explicit operator bool() const { return memory_.first != nullptr; }
  std::span<std::byte> parameters() const { return {memory_.first.get(), static_cast<std::size_t>(pages_)}; }
  std::span<std::byte> gradients() const { return {memory_.first.get() + pages_, static_cast<std::size_t>(pages_)}; }
  /// Memory for slabs, which together are all pages, one behind the other.
  HostMemorySource for_parameters() const { return source(0); }
  HostMemorySource for_gradients() const { return source(pages_); }

 private:
  HostMemorySource source(std::int64_t first) const;
  HostBytes memory_;
  std::int64_t pages_ = 0;
};

}  // namespace gemel::distributed
