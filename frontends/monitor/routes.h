// What the monitor's server answers. Routes are fixed; no part of a request is ever a path in a file system.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/monitor/run_index.h"

namespace gemel::monitor {

struct Response {
  unsigned status = 200;  // of HTTP
  std::string type;       // of the content
  std::string body;
};

/// Answers a GET. @param target  as it stands in the request: path and query, which are never decoded
Response answer(const RunIndex& index, std::string_view target);

/// One line of text, for an error.
Response plain(unsigned status, std::string text);

/// Tells which names a request may call this server. A page of a foreign site whose name was made to lead here ("DNS rebinding") sends its own name.
class HostNames {
 public:
  /// @param address  that the server listens at: "127.0.0.1", "0.0.0.0", "::1"  @param others  further names of this machine
  HostNames(const std::string& address, std::vector<std::string> others);
  /// @param host  the request's header Host, with or without a port
  bool accept(std::string_view host) const;
  bool is_loopback_only() const { return is_loopback_only_; }

 private:
  bool is_loopback_only_;
  std::vector<std::string> others_;
};

/// A curve as JSON: {"width":1,"x":[..],"mean":[..],"low":[..],"high":[..]}, where the last two are left out if each point stands for one value.
std::string json_text(const Curve& curve);

}  // namespace gemel::monitor
