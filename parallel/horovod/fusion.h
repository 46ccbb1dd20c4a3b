// Fusion: runs many small all-reduces as one. Contiguous tensors are reduced in place, others are packed into a buffer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/host_view.h"
#include "parallel/collectives/collectives.h"
#include "parallel/horovod/request.h"
#include "parallel/horovod/timeline.h"

namespace gemel::parallel::horovod {

/// The memory of a tensor, accessed in the communication thread when its turn comes.
class Buffer {
 public:
  virtual ~Buffer() = default;
  /// Waits until the contents are computed. The bytes stay valid until `close`.
  virtual std::span<std::byte> open() = 0;
  /// Makes what was written available to later uses of the tensor.
  virtual void close() {}
};
/// Makes a buffer of host memory, which must outlive its use.
std::shared_ptr<Buffer> host_buffer(std::span<std::byte> bytes);
/// Makes a buffer that keeps host memory alive as long as a request needs it, even if the caller drops its handle.
std::shared_ptr<Buffer> host_buffer(std::shared_ptr<std::vector<std::byte>> bytes);

/// Groups requests to carry out together; returns their indices, ordered by the first of each group. All-reduces of one element type, reduction and scale are
/// joined up to `most_bytes`, also across other requests between them; a group of Horovod's stays together whatever its size.
std::vector<std::vector<std::size_t>> fused(std::span<const Request> requests, std::int64_t most_bytes);

/// Multiplies elements by a factor; integers only by 1.
void scale(const Elements& data, double factor);

class Fusion {
 public:
  explicit Fusion(Timeline& timeline) : timeline_(timeline) {}

  struct Part {
    const Request& request;
    Buffer* buffer;  // null: this rank has joined and gives neutral data
  };
  /// All-reduces several tensors of one element type, reduction and scale as one.
  /// @param givers  number of ranks that give data, which a mean divides by
  void all_reduce(Collectives& c, std::span<const Part> parts, int givers);
  /// Bytes of shared memory in which packing would be faster; 0: there is enough. Some ranks may pack while others need not, but only all ranks of a machine
  /// together can allocate: by `share`.
  std::int64_t wanted_bytes() const { return wanted_bytes_; }
  /// Allocates shared memory; collective among the ranks of each machine.
  /// @param bytes  the most that any rank wants
  void share(Collectives& c, std::int64_t bytes);

 private:
  Elements packing(std::int64_t count, DType dtype);
  void reduce_packed(Collectives& c, std::span<const Part> parts, std::span<const std::span<std::byte>> opened, int givers);

  Timeline& timeline_;
  HostBytes shared_;                // seen by the ranks of the machine
  std::vector<std::byte> private_;  // used if shared_ is too small
  std::int64_t wanted_bytes_ = 0;
  bool can_share_ = true;
};

}  // namespace gemel::parallel::horovod
