#include "parallel/transport/process_shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel::parallel {
namespace {

constexpr int kMostRanks = 250;  // of a machine: the kernel passes 253 files in one message
constexpr int kConnectMs = 10'000;

[[noreturn]] void fail(const char* what) { throw CommError(fmt::format("shared memory: {}: {}", what, std::strerror(errno))); }

/// A file descriptor, closed with its owner.
class File {
 public:
  explicit File(int fd = -1) : fd_(fd) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// Pages that are there: too little memory shows here, and not when they are written.
File reserved_memory(std::int64_t bytes) {
  File file(memfd_create("gemel", MFD_CLOEXEC));
  if (!file || ftruncate(file.get(), bytes) != 0 || posix_fallocate(file.get(), 0, bytes) != 0) return File();
  return file;
}

/// What a rank says first on its connection, so that no stranger is taken for it.
struct Greeting {
  std::array<char, 16> token{};
  int rank = 0;
};
/// Where the first rank listens: an abstract address that the kernel chose, without a name in the file system.
struct Invitation {
  std::array<char, 16> token{}, address{};
  std::uint32_t length = 0;  // of the address; 0: there is no listening socket
};

void wait_readable(int fd, const WaitCheck& check, int within_ms = -1) {
  for (int waited = 0;; waited += 20) {
    pollfd p{fd, POLLIN, 0};
    if (poll(&p, 1, 20) > 0) return;
    check.check();
    if (within_ms >= 0 && waited >= within_ms) throw CommError("shared memory: a rank of this machine did not connect within 10 s");
  }
}

}  // namespace

/// A connection to another rank of the machine.
class ProcessGroup::Socket {
 public:
  Socket(File file, const WaitCheck& check) : file_(std::move(file)), check_(check) {}

  void send(std::span<const std::byte> bytes, std::span<const int> files = {}) const {
    iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostRanks)> control{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    if (!files.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(files.size_bytes());
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(files.size_bytes());
      std::memcpy(CMSG_DATA(header), files.data(), files.size_bytes());
    }
    if (sendmsg(file_.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size())) return;
    const int error = errno;
    check_.check();  // it may have said that it ends
    errno = error;
    fail("a rank of this machine is lost");
  }
  std::vector<File> receive(std::span<std::byte> bytes, int within_ms = -1) const {
    wait_readable(file_.get(), check_, within_ms);
    iovec data{bytes.data(), bytes.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostRanks)> control{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = recvmsg(file_.get(), &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    std::vector<File> files;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      for (std::size_t i = 0; i < (header->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
        files.emplace_back(fd);
      }
    }
    if (got == static_cast<ssize_t>(bytes.size())) return files;
    check_.check();  // it may have said that it ends
    throw CommError("shared memory: a rank of this machine is lost");
  }

 private:
  File file_;
  const WaitCheck& check_;
};

ProcessGroup::Segment::~Segment() {
  for (const Mapping& m : of)
    if (m.first) munmap(m.first, at(m.bytes));
}

namespace {

/// Listens at an address of the kernel's choice; without one where that fails.
File listening(Invitation& invitation) {
  File file(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t length = sizeof address;
  if (!file || bind(file.get(), reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)) != 0 || listen(file.get(), kMostRanks) != 0 ||
      getsockname(file.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0 || getrandom(invitation.token.data(), invitation.token.size(), 0) < 0)
    return File();
  invitation.length = length - static_cast<socklen_t>(offsetof(sockaddr_un, sun_path));
  if (invitation.length > invitation.address.size()) return File();
  std::memcpy(invitation.address.data(), address.sun_path, invitation.length);
  return file;
}

File connected(const Invitation& invitation) {
  File file(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, invitation.address.data(), invitation.length);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + invitation.length);
  if (!file || connect(file.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return File();
  return file;
}

}  // namespace

/// The first rank's side: connections to all others, or none.
ProcessGroup::Sockets ProcessGroup::invite(Communicator& c, std::span<const int> ranks, const WaitCheck& check) {
  const int size = static_cast<int>(ranks.size());
  Invitation invitation;
  const File listener = listening(invitation);
  if (!listener) invitation.length = 0;
  for (int r = 1; r < size; ++r) c.send(ranks[at(r)], raw_bytes(invitation)).wait();
  std::uint8_t good = 1;
  for (int r = 1; r < size; ++r) {  // whether they could connect, by the messages that work in any case
    std::uint8_t theirs = 0;
    c.receive(ranks[at(r)], raw_bytes(theirs)).wait();
    good = good && theirs;
  }
  Sockets sockets(good ? ranks.size() : 0);
  for (int left = good ? size - 1 : 0; left > 0;) {
    wait_readable(listener.get(), check, kConnectMs);
    auto socket = std::make_unique<Socket>(File(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)), check);
    Greeting greeting;
    socket->receive(raw_bytes(greeting), kConnectMs);
    if (greeting.token != invitation.token || greeting.rank < 1 || greeting.rank >= size || sockets[at(greeting.rank)]) continue;  // a stranger
    sockets[at(greeting.rank)] = std::move(socket);
    --left;
  }
  for (int r = 1; r < size; ++r) c.send(ranks[at(r)], raw_bytes(good)).wait();
  return sockets;
}

/// Another rank's side: the connection to the first, or none where one of them has none.
ProcessGroup::Sockets ProcessGroup::accept(Communicator& c, int first, const WaitCheck& check) {
  Invitation invitation;
  c.receive(first, raw_bytes(invitation)).wait();
  File file = invitation.length ? connected(invitation) : File();
  std::uint8_t good = file ? 1 : 0;
  Sockets sockets;
  if (file) {
    sockets.push_back(std::make_unique<Socket>(std::move(file), check));
    Greeting greeting{invitation.token, c.local_rank()};
    sockets[0]->send(raw_bytes(greeting));
  }
  c.send(first, raw_bytes(good)).wait();
  c.receive(first, raw_bytes(good)).wait();
  if (!good) sockets.clear();
  return sockets;
}

std::unique_ptr<SharedGroup> ProcessGroup::make(Communicator& c, const WaitCheck& check) {
  const std::vector<int> ranks = c.placement().beside(c.rank());
  const int size = static_cast<int>(ranks.size()), self = c.local_rank();
  if (size > kMostRanks) return nullptr;
  Sockets sockets = self == 0 ? invite(c, ranks, check) : accept(c, ranks[0], check);
  if (sockets.empty()) return nullptr;
  std::unique_ptr<ProcessGroup> group(new ProcessGroup(self, size, check, std::move(sockets)));
  const auto control = group->share(control_bytes(size));
  if (!control) return nullptr;
  group->segments_.push_back(control);
  group->use(control->of[0].first);
  return group;
}

ProcessGroup::ProcessGroup(int rank, int size, const WaitCheck& check, Sockets sockets) : SharedGroup(rank, size, check), sockets_(std::move(sockets)) {}

ProcessGroup::~ProcessGroup() = default;

void ProcessGroup::agree(std::span<std::uint8_t> flags) const {
  const std::span<std::byte> mine = std::as_writable_bytes(flags);
  if (rank() != 0) {
    sockets_[0]->send(mine);
    sockets_[0]->receive(mine);
    return;
  }
  std::vector<std::uint8_t> theirs(flags.size());
  for (int r = 1; r < size(); ++r) {
    sockets_[at(r)]->receive(std::as_writable_bytes(std::span(theirs)));
    for (std::size_t i = 0; i < flags.size(); ++i) flags[i] = flags[i] && theirs[i];
  }
  for (int r = 1; r < size(); ++r) sockets_[at(r)]->send(mine);
}

/// Memory of each rank; no files where one of them has not so much.
struct ProcessGroup::Files {
  std::vector<File> of;               // [rank of the machine]
  std::vector<std::int64_t> lengths;  // bytes
};

/// Every rank gives its file to the first, which gives all of them to everyone.
ProcessGroup::Files ProcessGroup::exchange_files(std::int64_t bytes) const {
  Files all{{}, std::vector<std::int64_t>(at(size()))};
  File mine = reserved_memory(bytes);
  if (rank() != 0) {
    const int fd = mine.get();
    sockets_[0]->send(raw_bytes(bytes), mine ? std::span(&fd, 1) : std::span<const int>());
    all.of = sockets_[0]->receive(std::as_writable_bytes(std::span(all.lengths)));
    return all;
  }
  all.lengths[0] = bytes;
  all.of.push_back(std::move(mine));
  for (int r = 1; r < size(); ++r) {
    std::vector<File> got = sockets_[at(r)]->receive(raw_bytes(all.lengths[at(r)]));
    all.of.push_back(got.empty() ? File() : std::move(got[0]));
  }
  if (!std::ranges::all_of(all.of, [](const File& f) { return static_cast<bool>(f); })) all.of.clear();
  std::vector<int> numbers;
  for (const File& f : all.of) numbers.push_back(f.get());
  for (int r = 1; r < size(); ++r) sockets_[at(r)]->send(std::as_bytes(std::span(all.lengths)), numbers);
  return all;
}

std::shared_ptr<ProcessGroup::Segment> ProcessGroup::share(std::int64_t bytes) const {
  const Files files = exchange_files(round_up(std::max<std::int64_t>(bytes, 1), kHostPage));
  auto segment = std::make_shared<Segment>();
  std::uint8_t mapped = std::ssize(files.of) == size();
  for (int r = 0; mapped && r < size(); ++r) {
    const std::int64_t length = files.lengths[at(r)];
    void* const first = mmap(nullptr, at(length), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, files.of[at(r)].get(), 0);
    mapped = first != MAP_FAILED;
    if (mapped) segment->of.push_back({static_cast<std::byte*>(first), length});
  }
  agree({&mapped, 1});  // one that could not map tells the others
  return mapped ? segment : nullptr;
}

void ProcessGroup::drop_released() {
  std::vector<std::uint8_t> released;
  for (const auto& segment : segments_) released.push_back(segment.use_count() == 1);
  released[0] = 0;  // the control memory
  agree(released);
  for (std::size_t i = 0; i < segments_.size(); ++i)
    if (released[i]) segments_[i].reset();
}

HostBytes ProcessGroup::allocate(std::int64_t bytes) {
  drop_released();
  const std::shared_ptr<Segment> segment = share(bytes);
  if (!segment) return {};
  const auto place = std::ranges::find(segments_, nullptr);
  if (place == segments_.end())
    segments_.push_back(segment);
  else
    *place = segment;
  const Segment::Mapping& mine = segment->of[at(rank())];
  return {std::shared_ptr<std::byte>(segment, mine.first), mine.bytes};
}

SharedPlace ProcessGroup::place_of(const std::byte* data) const {
  for (std::size_t i = 0; data && i < segments_.size(); ++i) {
    if (!segments_[i]) continue;
    const Segment::Mapping& mine = segments_[i]->of[at(rank())];
    if (data >= mine.first && data < mine.first + mine.bytes) return {static_cast<std::int64_t>(i), data - mine.first};
  }
  return {};
}

std::byte* ProcessGroup::address_of(int rank, const SharedPlace& place) const {
  return place.segment < 0 ? nullptr : segments_[at(place.segment)]->of[at(rank)].first + place.offset;
}

}  // namespace gemel::parallel
