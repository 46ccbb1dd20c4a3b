// The network interfaces of this machine.
#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gemel::cli {

/// Of IPv4, in the machine's order of bytes.
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
  std::vector<std::string> addresses = {};  // of IPv4 and of IPv6

  /// For Open MPI.
  bool is_usable() const { return is_up && !networks.empty(); }
  /// By which containers and virtual machines of this machine reach it. Those of others often have the same addresses.
  bool is_virtual() const;
};

/// None where the system does not tell.
std::vector<Interface> network_interfaces();

/// Of IPv4, in the machine's order of bytes.
std::uint32_t number_of(const sockaddr* address);
/// "10.0.0.2", "::1"; empty of what is neither IPv4 nor IPv6.
std::string address_text(const sockaddr* address);

}  // namespace gemel::cli
