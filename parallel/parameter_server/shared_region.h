// SharedRegion: memory of a process that others of the same machine use.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/base/files/descriptor.h"
#include "engine/base/host_view.h"

namespace gemel::parallel {

/// An anonymous file in memory: a killed process leaves nothing behind. Others open it by way of /proc.
class SharedRegion {
 public:
  /// Where another process finds it.
  struct Place {
    std::int64_t process = 0, descriptor = -1, bytes = 0;
  };
  /// Reserves memory, in large pages where the system gives them. @return null if the system has none, or makes no such files
  static std::unique_ptr<SharedRegion> make(std::int64_t bytes);
  Place place() const;
  std::span<std::byte> bytes() const { return {memory_.first.get(), static_cast<std::size_t>(memory_.bytes)}; }
  /// The same memory, mapped as long as someone holds it.
  const HostBytes& memory() const { return memory_; }

 private:
  SharedRegion(Descriptor file, HostBytes memory) : file_(std::move(file)), memory_(std::move(memory)) {}
  Descriptor file_;
  HostBytes memory_;
};

/// Maps the memory of another process.
/// @return empty if there is none of that size, it could shrink, or it does not end with the nonce: process numbers may be those of another container
HostBytes see_region(const SharedRegion::Place& place, std::span<const std::byte> nonce);

}  // namespace gemel::parallel
