#include "frontends/cli/launch/mpirun_network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "frontends/cli/launch/hosts.h"
#include "frontends/cli/system/network_interfaces.h"

namespace gemel::cli {
namespace {

std::optional<std::uint32_t> address_of(const std::string& host) {
  addrinfo of_ipv4{};
  of_ipv4.ai_family = AF_INET;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &of_ipv4, &found) != 0) return std::nullopt;
  const std::uint32_t out = number_of(found->ai_addr);
  ::freeaddrinfo(found);
  return out;
}

/// The networks in which all the other machines are neighbours of this one; nothing where one is further away.
std::optional<std::set<std::string>> networks_to(const std::vector<Host>& hosts, const std::vector<Interface>& all) {
  std::set<std::string> out;
  for (const Host& host : hosts) {
    if (is_here(host.name)) continue;
    const auto address = address_of(host.name);
    const Network* by = nullptr;
    for (const Interface& i : all)
      for (const Network& n : i.networks)
        if (address && i.is_usable() && !i.is_loopback && n.has(*address)) by = &n;
    if (by == nullptr) return std::nullopt;
    out.insert(by->text());
  }
  return out;
}

/// Whether neither the environment nor a file of settings names the networks of ranks: one may say which to use, or which not, and not both.
bool is_left_to_open_mpi() {
  std::FILE* info = ::popen("ompi_info --param btl tcp --level 9 --parsable 2>/dev/null", "r");
  if (info == nullptr) return false;
  std::string text;
  std::array<char, 4096> bytes;
  for (std::size_t count; (count = std::fread(bytes.data(), 1, bytes.size(), info)) > 0;) text.append(bytes.data(), count);
  if (::pclose(info) != 0) return false;
  const auto is_default = [&](const char* name) { return text.find(fmt::format(":{}:source:default", name)) != std::string::npos; };
  return is_default("btl_tcp_if_include") && is_default("btl_tcp_if_exclude");
}

}  // namespace

std::optional<std::string> network_cannot() {
  const std::vector<Interface> all = network_interfaces();
  const auto loopback = std::ranges::find_if(all, &Interface::is_loopback);
  if (loopback == all.end()) return std::nullopt;
  const std::string& name = loopback->name;
  if (!loopback->is_up)  // where there is another interface they would wait for ever
    return fmt::format("the loopback interface {} is down, by which mpirun and its processes reach each other; accepted: ip link set {} up", name, name);
  if (std::ranges::any_of(all, &Interface::is_usable)) return std::nullopt;
  return fmt::format("no network interface has an address, by which mpirun and its processes reach each other; accepted: ip addr add 127.0.0.1/8 dev {}", name);
}

void choose_network(const std::vector<Host>& hosts) {
  const std::vector<Interface> all = network_interfaces();
  if (std::ranges::none_of(all, [](const Interface& i) { return i.is_usable() && i.is_virtual(); })) return;
  const auto networks = networks_to(hosts, all);
  if (networks && !networks->empty() && is_left_to_open_mpi()) ::setenv("OMPI_MCA_btl_tcp_if_include", fmt::format("{}", fmt::join(*networks, ",")).c_str(), 0);
  // Of these alone, as on a laptop without a network, mpirun 4 takes none, nor the loopback, which it passes over where there are others.
  const auto loopback = std::ranges::find_if(all, [](const Interface& i) { return i.is_loopback && i.is_usable(); });
  const bool has_other = std::ranges::any_of(all, [](const Interface& i) { return i.is_usable() && !i.is_loopback && !i.is_virtual(); });
  if (networks && networks->empty() && loopback != all.end() && !has_other) ::setenv("OMPI_MCA_oob_tcp_if_include", loopback->name.c_str(), 0);
}

}  // namespace gemel::cli
