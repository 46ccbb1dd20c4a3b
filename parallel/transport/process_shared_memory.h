// Shared memory of ranks that are processes of one machine: anonymous files, passed over a Unix socket. A killed job leaves nothing behind, and the size of
// /dev/shm does not matter.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parallel/transport/communicator.h"
#include "parallel/transport/shared_memory.h"

namespace gemel::parallel {

class ProcessGroup : public SharedGroup {
 public:
  /// Makes the group of this machine's ranks; collective among them.
  /// @return null on all of them if one cannot share memory  @throws CommError if one is lost meanwhile
  static std::unique_ptr<SharedGroup> make(Communicator& communicator, const WaitCheck& check);
  ~ProcessGroup() override;

  HostBytes allocate(std::int64_t bytes) override;

 private:
  /// Memory of each rank, mapped into this process and unmapped with its last owner.
  struct Segment {
    struct Mapping {
      std::byte* first = nullptr;
      std::int64_t bytes = 0;
    };
    std::vector<Mapping> of;  // [rank of the machine]
    ~Segment();
  };
  class Socket;
  struct Files;
  using Sockets = std::vector<std::unique_ptr<Socket>>;

  ProcessGroup(int rank, int size, const WaitCheck& check, Sockets sockets);
  static Sockets invite(Communicator& communicator, std::span<const int> ranks, const WaitCheck& check);
  static Sockets accept(Communicator& communicator, int first, const WaitCheck& check);
  /// Sets a flag to 0 on all ranks if it is 0 on one of them.
  void agree(std::span<std::uint8_t> flags) const;
  Files exchange_files(std::int64_t bytes) const;
  std::shared_ptr<Segment> share(std::int64_t bytes) const;
  /// Unmaps memory that all ranks have released. Until then any rank may refer to it, and the others must find it.
  void drop_released();
  SharedPlace place_of(const std::byte* data) const override;
  std::byte* address_of(int rank, const SharedPlace& place) const override;

  Sockets sockets_;                                 // on the first rank: to each other rank; else: to the first
  std::vector<std::shared_ptr<Segment>> segments_;  // by number, the same on all ranks; null: unmapped. The first has the control memory
};

}  // namespace gemel::parallel
