#include "parallel/watch/addresses.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <sstream>

#include "engine/base/error.h"

namespace gemel::parallel {
namespace {

struct Found {
  bool loopback;
  bool six;
  std::string address;
};

std::optional<std::string> text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address == nullptr) return {};
  if (address->sa_family == AF_INET) return ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  if (address->sa_family != AF_INET6) return {};
  const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (IN6_IS_ADDR_LINKLOCAL(&six)) return {};
  return ::inet_ntop(AF_INET6, &six, text, sizeof text);
}

std::optional<WatchEndpoint> parse_endpoint(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {};
  WatchEndpoint endpoint{text.substr(0, colon)};
  const char *first = text.data() + colon + 1, *last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, endpoint.port);
  if (error != std::errc() || end != last) return {};
  if (endpoint.address.starts_with('[') && endpoint.address.ends_with(']')) endpoint.address = endpoint.address.substr(1, endpoint.address.size() - 2);
  return endpoint;
}

}  // namespace

std::string WatchEndpoint::text() const {
  return address.find(':') == std::string::npos ? fmt::format("{}:{}", address, port) : fmt::format("[{}]:{}", address, port);
}

std::string WatchAnnouncement::text() const {
  std::string out = token;
  for (const WatchEndpoint& endpoint : endpoints) out += " " + endpoint.text();
  return out;
}

WatchAnnouncement WatchAnnouncement::parse(const std::string& text) {
  WatchAnnouncement announcement;
  std::istringstream words(text);
  words >> announcement.token;
  for (std::string word; words >> word;) {
    const std::optional<WatchEndpoint> endpoint = parse_endpoint(word);
    if (!endpoint) throw CommError(fmt::format("failure watch: rank 0 announced `{}`; accepted: a token, then ADDRESS:PORT of each of its addresses", text));
    announcement.endpoints.push_back(*endpoint);
  }
  if (announcement.endpoints.empty()) throw CommError(fmt::format("failure watch: rank 0 announced `{}`, which has no address", text));
  return announcement;
}

std::string random_token() {
  std::random_device device;
  std::string token;
  for (int word = 0; word < 4; ++word) token += fmt::format("{:08x}", device());
  return token;
}

std::vector<std::string> addresses_of(const std::string& interface) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) throw CommError("failure watch: the system does not tell the addresses of this host");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, ::freeifaddrs);
  std::set<std::string> names;  // with an address
  std::vector<Found> found;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    const std::optional<std::string> address = text_of(one->ifa_addr);
    if (!address || (one->ifa_flags & IFF_UP) == 0) continue;
    names.insert(one->ifa_name);
    if (interface.empty() || interface == one->ifa_name)
      found.push_back({(one->ifa_flags & IFF_LOOPBACK) != 0, one->ifa_addr->sa_family == AF_INET6, *address});
  }
  if (found.empty() && interface.empty())
    throw CommError("failure watch: no network interface of this host has an address; accepted: at least the loopback, lo");
  if (found.empty())
    throw UsageError(fmt::format("interface: {} is not there on rank 0's host, or has no address; accepted: {}", interface, fmt::join(names, ", ")));
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return std::pair(a.loopback, a.six) < std::pair(b.loopback, b.six); });
  std::vector<std::string> addresses;
  for (Found& one : found) addresses.push_back(std::move(one.address));
  return addresses;
}

}  // namespace gemel::parallel
