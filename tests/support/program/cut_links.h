// Cuts the network between two processes of this machine that the test started: what arrives at their sockets is dropped, as by a broken switch.
#pragma once
#include <dirent.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace gemel::testing {

/// A process's sockets of TCP, as descriptors of this process.
class SocketsOf {
 public:
  explicit SocketsOf(pid_t process) {
    const int of = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd", gone)) {
      if (!std::filesystem::read_symlink(entry.path(), gone).string().starts_with("socket:")) continue;
      const int socket = static_cast<int>(::syscall(SYS_pidfd_getfd, of, std::atoi(entry.path().filename().c_str()), 0));
      if (socket < 0) continue;
      const std::pair ports{port(socket, ::getsockname), port(socket, ::getpeername)};
      if (ports.first > 0 && ports.second > 0)
        sockets_.push_back({socket, ports});
      else
        ::close(socket);
    }
    ::close(of);
  }
  ~SocketsOf() {
    for (const auto& [socket, ports] : sockets_) ::close(socket);
  }
  SocketsOf(const SocketsOf&) = delete;
  SocketsOf& operator=(const SocketsOf&) = delete;

  /// From here on they hear nothing of the other process's. @return how many
  int become_deaf_to(const SocketsOf& other) const {
    sock_filter drop_all{BPF_RET | BPF_K, 0, 0, 0};
    const sock_fprog filter{1, &drop_all};
    int cut = 0;
    for (const auto& [socket, ports] : sockets_)
      for (const auto& [its_socket, its_ports] : other.sockets_)
        if (ports.first == its_ports.second && ports.second == its_ports.first)
          cut += ::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0;
    return cut;
  }

 private:
  /// 0 for what is no socket of TCP, or is not connected.
  template <class Name>
  static int port(int socket, Name name) {
    sockaddr_storage at{};
    socklen_t size = sizeof at;
    if (name(socket, reinterpret_cast<sockaddr*>(&at), &size) != 0) return 0;
    if (at.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(at).sin_port);
    return at.ss_family == AF_INET6 ? ntohs(reinterpret_cast<const sockaddr_in6&>(at).sin6_port) : 0;
  }
  std::vector<std::pair<int, std::pair<int, int>>> sockets_;  // with the ports of both ends
};

/// Whether this process may use another one's sockets, as a container's rules may not let it.
inline bool may_cut_links() {
  const int self = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
  const int copy = self < 0 ? -1 : static_cast<int>(::syscall(SYS_pidfd_getfd, self, STDERR_FILENO, 0));
  for (const int one : {self, copy})
    if (one >= 0) ::close(one);
  return copy >= 0;
}

}  // namespace gemel::testing
