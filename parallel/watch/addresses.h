// Network addresses at which the other ranks reach rank 0's failure detector.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace gemel::parallel {

struct WatchEndpoint {
  std::string address;  // 192.0.2.1, 2001:db8::1
  std::uint16_t port = 0;

  std::string text() const;  // 192.0.2.1:4000, [2001:db8::1]:4000
};

/// Announcement of rank 0 to the other ranks. Several hosts may have the same address, such as containers; the rank 0 of this job is the one that answers with
/// the token.
struct WatchAnnouncement {
  std::string token;
  std::vector<WatchEndpoint> endpoints;

  std::string text() const;
  /// @throws CommError for text that is not an announcement
  static WatchAnnouncement parse(const std::string& text);
};

std::string random_token();

/// Returns the addresses of this host, the loopback's last; without link-local addresses.
/// @param interface  name of a network interface; empty: all
/// @throws UsageError if there is no such interface or it has no address; lists the interfaces
std::vector<std::string> addresses_of(const std::string& interface);

}  // namespace gemel::parallel
