// Where rank 0 is reached by the watches of the others.
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

/// Addresses of several hosts may be the same, those of containers for one: what answers with the token is rank 0 of this job.
struct WatchAnnouncement {
  std::string token;
  std::vector<WatchEndpoint> endpoints;

  std::string text() const;
  /// @throws CommError for what is none
  static WatchAnnouncement parse(const std::string& text);
};

std::string random_token();

/// Addresses of this host, the loopback's last; without those that hold inside one link only.
/// @param interface  empty: of all
/// @throws UsageError where there is no such interface or it has no address: names those there are
std::vector<std::string> addresses_of(const std::string& interface);

}  // namespace gemel::parallel
