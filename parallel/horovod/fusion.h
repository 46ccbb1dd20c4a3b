// Fusion: many small all-reduces as one. Tensors that lie behind each other are reduced where they lie, others are packed into a buffer.
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

/// A tensor's memory, reached in the communication thread when its turn comes.
class Buffer {
 public:
  virtual ~Buffer() = default;
  /// Waits until its contents are computed. The bytes stay where they are until `close`.
  virtual std::span<std::byte> open() = 0;
  /// What was written is there for whoever uses the tensor next.
  virtual void close() {}
};
/// Memory of the host's, which must outlive what is done with it.
std::shared_ptr<Buffer> host_buffer(std::span<std::byte> bytes);
/// The same, kept as long as a request needs it: whoever asked may let go of the handle.
std::shared_ptr<Buffer> host_buffer(std::shared_ptr<std::vector<std::byte>> bytes);

/// Which requests are carried out at once: indices, in the order of the first of each. All-reduces of one type, reduction and scale are joined,
/// also over others between them, up to so many bytes; a group stays together whatever its size.
std::vector<std::vector<std::size_t>> fused(std::span<const Request> requests, std::int64_t most_bytes);

/// Integers only by 1.
void scale(const Elements& data, double factor);

class Fusion {
 public:
  explicit Fusion(Timeline& timeline) : timeline_(timeline) {}

  struct Part {
    const Request& request;
    Buffer* buffer;  // null: this rank has joined, and changes nothing
  };
  /// The tensors of all ranks become their reduction: one all-reduce. Of one type, reduction and scale.
  /// @param givers  ranks that give data, which a mean is over
  void all_reduce(Collectives& c, std::span<const Part> parts, int givers);
  /// Memory that the ranks of the machine see, which packing would be faster in; 0: it has enough. Only some of the ranks may pack, and only
  /// all of them can allocate it: by `share`.
  std::int64_t wanted_bytes() const { return wanted_bytes_; }
  /// Collective among the ranks of each machine. @param bytes  the most that a rank wants
  void share(Collectives& c, std::int64_t bytes);

 private:
  Elements packing(std::int64_t count, DType dtype);
  void reduce_packed(Collectives& c, std::span<const Part> parts, std::span<const std::span<std::byte>> opened, int givers);

  Timeline& timeline_;
  HostBytes shared_;                // that the ranks of the machine see
  std::vector<std::byte> private_;  // where that is too small
  std::int64_t wanted_bytes_ = 0;
  bool can_share_ = true;
};

}  // namespace gemel::parallel::horovod
