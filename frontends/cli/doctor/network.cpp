// gemel doctor: the names and addresses of this machine, and if it can reach itself.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "frontends/cli/doctor/health_check.h"
#include "frontends/cli/launch/mpirun_network.h"
#include "frontends/cli/system/network_interfaces.h"

namespace gemel::cli {
namespace {

/// The ranks of one machine, and Open MPI's own processes, talk over it.
Finding loopback() {
  constexpr std::string_view kAccepted = "; accepted: ";
  bool has_loopback = false;
  std::vector<std::string> up;  // "eth0 10.0.0.2"
  for (const Interface& i : network_interfaces()) {
    has_loopback = has_loopback || i.is_loopback;
    for (const std::string& address : i.addresses)
      if (i.is_up && !i.is_loopback) up.push_back(fmt::format("{} {}", i.name, address));
  }
  const std::string others = up.empty() ? "no other interface" : fmt::format("{}", fmt::join(up, ", "));
  if (const auto why = network_cannot()) {
    const std::size_t end = why->find(kAccepted);
    return {Health::wrong, fmt::format("{}; {}", why->substr(0, end), others), as_root(why->substr(end + kAccepted.size()))};
  }
  return {Health::ok, fmt::format("{}; {}", has_loopback ? "lo is up" : "there is none", others)};
}

/// It may wait for a name server for as long as a minute.
std::set<std::string> addresses_of(const std::string& host) {
  addrinfo* found = nullptr;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  std::set<std::string> out;
  for (const addrinfo* f = found; f; f = f->ai_next) out.insert(address_text(f->ai_addr));
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
  const std::set<std::string> addresses = answer.get();
  if (addresses.empty()) return {Health::odd, host + " has no address: other machines cannot be told of this one", remedy};
  const std::string text = fmt::format("{} is {}", host, fmt::join(addresses, ", "));
  if (std::ranges::all_of(addresses, is_of_loopback)) return {Health::ok, text + ": a loopback address, enough for jobs of this machine alone"};
  for (const Interface& i : network_interfaces())
    if (i.is_up && std::ranges::any_of(i.addresses, [&](const std::string& a) { return addresses.contains(a); })) return {Health::ok, text};
  return {Health::odd, text + ", which no interface of this machine has", "the address that it has now, in /etc/hosts or with the name server"};
}

}  // namespace

std::vector<Check> network_checks() { return {{"loopback", loopback}, {"host-name", host_name}}; }

}  // namespace gemel::cli
