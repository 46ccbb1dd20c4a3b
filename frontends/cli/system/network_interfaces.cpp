#include "frontends/cli/system/network_interfaces.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <string_view>

namespace gemel::cli {

std::string Network::text() const {
  const std::uint32_t base = address & mask;
  return fmt::format("{}.{}.{}.{}/{}", base >> 24, (base >> 16) & 255, (base >> 8) & 255, base & 255, std::popcount(mask));
}

bool Interface::is_virtual() const {
  constexpr std::string_view kBegins[] = {"docker", "br-", "vir", "veth", "lxc", "lxd", "cni", "podman", "flannel", "cali"};
  return std::ranges::any_of(kBegins, [&](std::string_view begin) { return name.starts_with(begin); });
}

std::uint32_t number_of(const sockaddr* address) { return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr); }

std::string address_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address == nullptr) return "";
  if (address->sa_family == AF_INET) ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text.data(), text.size());
  if (address->sa_family == AF_INET6) ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text.data(), text.size());
  return text.data();
}

std::vector<Interface> network_interfaces() {
  std::vector<Interface> out;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return out;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, ::freeifaddrs);
  for (const ifaddrs* one = all; one; one = one->ifa_next) {
    auto found = std::ranges::find(out, one->ifa_name, &Interface::name);
    if (found == out.end()) found = out.insert(out.end(), {one->ifa_name, (one->ifa_flags & IFF_LOOPBACK) != 0, (one->ifa_flags & IFF_UP) != 0});
    if (const std::string text = address_text(one->ifa_addr); !text.empty()) found->addresses.push_back(text);
    if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET && one->ifa_netmask)
      found->networks.push_back({number_of(one->ifa_addr), number_of(one->ifa_netmask)});
  }
  return out;
}

}  // namespace gemel::cli
