// The network interfaces of this machine.
#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gemel::cli {

/// An IPv4 network, in the machine's byte order.
struct Network {
  std::uint32_t address = 0, mask = 0;

  bool has(std::uint32_t other) const { return ((address ^ other) & mask) == 0; }
  /// "10.79.4.0/22"
  std::string text() const;
};

struct Interface {
  std::string name;
  bool is_loopback = false, is_up = false;
  std::vector<Network> networks = {};
  std::vector<std::string> addresses = {};  // IPv4 and IPv6

  /// True if Open MPI can use it.
  bool is_usable() const { return is_up && !networks.empty(); }
  /// True if containers or virtual machines of this machine are reached by it. Such interfaces of different machines often have the same addresses.
  bool is_virtual() const;
};

/// Returns the interfaces; empty if the system does not tell.
std::vector<Interface> network_interfaces();

/// Returns an IPv4 address in the machine's byte order.
std::uint32_t number_of(const sockaddr* address);
/// Returns an address as text, such as "10.0.0.2" or "::1"; empty if it is neither IPv4 nor IPv6.
std::string address_text(const sockaddr* address);

}  // namespace gemel::cli
