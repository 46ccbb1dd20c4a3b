// gemel doctor: how this machine reaches itself and is called.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "frontends/cli/doctor_check.h"

namespace gemel::cli {
namespace {

std::string text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address == nullptr) return "";
  if (address->sa_family == AF_INET) ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text.data(), text.size());
  if (address->sa_family == AF_INET6) ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text.data(), text.size());
  return text.data();
}

struct Interfaces {
  bool has_loopback = false;
  std::vector<std::string> up;      // "eth0 10.0.0.2"
  std::set<std::string> addresses;  // of all that are up
};

Interfaces interfaces() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, ::freeifaddrs);
  Interfaces out;
  for (const ifaddrs* i = all; i; i = i->ifa_next) {
    const std::string address = text_of(i->ifa_addr);
    if ((i->ifa_flags & IFF_UP) == 0 || address.empty()) continue;
    out.addresses.insert(address);
    if (i->ifa_flags & IFF_LOOPBACK)
      out.has_loopback = true;
    else
      out.up.push_back(fmt::format("{} {}", i->ifa_name, address));
  }
  return out;
}

/// The ranks of one machine, and Open MPI's own processes, talk over it.
Finding loopback() {
  const Interfaces found = interfaces();
  const std::string others = found.up.empty() ? "no other interface" : fmt::format("{}", fmt::join(found.up, ", "));
  if (found.has_loopback) return {Health::ok, fmt::format("lo is up; {}", others)};
  return {Health::wrong, fmt::format("the loopback interface is down, without which mpirun starts nothing; {}", others), as_root("ip link set lo up")};
}

/// It may wait for a name server for as long as a minute.
std::set<std::string> addresses_of(const std::string& host) {
  addrinfo* found = nullptr;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  std::set<std::string> out;
  for (const addrinfo* f = found; f; f = f->ai_next) out.insert(text_of(f->ai_addr));
  return out;
}

bool is_of_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

Finding host_name() {
  constexpr std::chrono::seconds kForAnswer{2};
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  const std::string host = name.data();
  std::packaged_task<std::set<std::string>()> ask([host] { return addresses_of(host); });
  auto answer = ask.get_future();
  std::thread(std::move(ask)).detach();  // this process may end before it
  const std::string remedy = fmt::format("echo '127.0.1.1 {}' | {}tee -a /etc/hosts", host, ::geteuid() == 0 ? "" : "sudo ");
  if (answer.wait_for(kForAnswer) != std::future_status::ready)
    return {Health::odd, fmt::format("{}: no name server says what it is within {} s", host, kForAnswer.count()), remedy};
  const std::set<std::string> addresses = answer.get(), own = interfaces().addresses;
  if (addresses.empty()) return {Health::odd, host + " has no address: other machines cannot be told of this one", remedy};
  const std::string text = fmt::format("{} is {}", host, fmt::join(addresses, ", "));
  if (std::ranges::all_of(addresses, is_of_loopback)) return {Health::ok, text + ": a loopback address, enough for jobs of this machine alone"};
  if (std::ranges::any_of(addresses, [&](const std::string& a) { return own.contains(a); })) return {Health::ok, text};
  return {Health::odd, text + ", which no interface of this machine has", "the address that it has now, in /etc/hosts or with the name server"};
}

}  // namespace

std::vector<Check> network_checks() { return {{"loopback", loopback}, {"host-name", host_name}}; }

}  // namespace gemel::cli
