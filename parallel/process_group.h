// The ranks of one machine that are processes: memory in files without names, handed over a Unix socket. A killed job leaves nothing behind,
// and the size of /dev/shm does not matter.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/shared_group.h"

namespace gemel::parallel {

class ProcessGroup : public SharedGroup {
 public:
  /// Of the ranks beside this one; collective among them.
  /// @return null on all of them where one cannot share memory  @throws CommError where one is lost meanwhile
  static std::unique_ptr<SharedGroup> make(Communicator& communicator, const AbortFlag& abort);
  ~ProcessGroup() override;

  HostBytes allocate(std::int64_t bytes) override;

 private:
  /// Memory of each rank, mapped here; unmapped with its last owner.
  struct Segment {
    struct Mapping {
      std::byte* first = nullptr;
      std::int64_t bytes = 0;
    };
    std::vector<Mapping> of;  // [rank of the machine]
    ~Segment();
  };
  class Socket;

  ProcessGroup(int rank, int size, const AbortFlag& abort, std::vector<std::unique_ptr<Socket>> sockets);
  std::shared_ptr<Segment> share(std::int64_t bytes);
  SharedPlace place_of(const std::byte* data) const override;
  std::byte* address_of(int rank, const SharedPlace& place) const override;

  std::vector<std::unique_ptr<Socket>> sockets_;    // of the first rank: to each of the others; of those: to the first
  std::vector<std::shared_ptr<Segment>> segments_;  // the first is the control memory
};

}  // namespace gemel::parallel
