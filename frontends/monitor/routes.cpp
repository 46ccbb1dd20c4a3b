#include "frontends/monitor/routes.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <map>

#include "engine/base/error.h"
#include "frontends/monitor/page_files.h"

namespace gemel::monitor {
namespace {

constexpr const char* kJson = "application/json";

/// The members of "a=1&b=2". Empty where one is not of that form, or stands twice.
std::optional<std::map<std::string_view, std::string_view>> members(std::string_view query) {
  std::map<std::string_view, std::string_view> out;
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    const auto sign = one.find('=');
    if (sign == one.npos || !out.emplace(one.substr(0, sign), one.substr(sign + 1)).second) return std::nullopt;
    query.remove_prefix(std::min(query.size(), one.size() + 1));
  }
  return out;
}

template <class T>
bool read_number(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

bool is_id(std::string_view text) {
  return text.size() == 16 && std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Response wrong_query(const char* accepted) { return plain(400, fmt::format("the query is wrong; accepted: {}", accepted)); }

Response runs(const RunIndex& index, std::string_view query) {
  const auto given = members(query);
  std::uint64_t since = 0;
  if (!given || given->size() > 1 || (given->size() == 1 && (!given->contains("since") || !read_number(given->at("since"), since))))
    return wrong_query("since=VERSION");
  return {200, kJson, index.runs(since).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)};
}

Response about(const RunIndex& index, std::string_view query) {
  const auto given = members(query);
  if (!given || given->size() != 1 || !given->contains("run") || !is_id(given->at("run"))) return wrong_query("run=ID");
  const auto found = index.about(std::string(given->at("run")));
  if (!found) return plain(404, "there is no such run");
  return {200, kJson, found->dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)};
}

/// "0123456789abcdef.64". Empty if it is not of that form.
std::optional<SeriesName> series_name(std::string_view text) {
  SeriesName out{std::string(text.substr(0, text.find('.'))), 0};
  if (!is_id(out.run) || text.size() <= out.run.size() || !read_number(text.substr(out.run.size() + 1), out.series)) return std::nullopt;
  return out;
}

/// The curves of a plot, all of one part: [{..}, null, {..}], null where there is none.
Response curves(const RunIndex& index, std::string_view query) {
  constexpr const char* kAccepted = "of=ID.N,ID.N,..&from=X&to=X&width=W, at most 512 curves, a range within 1e15";
  constexpr int kMost = 512;
  const auto given = members(query);
  Detail detail;
  const auto read = [&](const char* key, auto& to) { return given->contains(key) && read_number(given->at(key), to); };
  if (!given || given->size() != 4 || !given->contains("of") || !read("from", detail.from) || !read("to", detail.to) || !read("width", detail.width))
    return wrong_query(kAccepted);
  std::string out = "[";
  std::string_view names = given->at("of");
  for (int i = 0; i == 0 || !names.empty(); ++i) {
    const std::string_view one = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), one.size() + 1));
    const auto name = series_name(one);
    if (!name || i == kMost) return wrong_query(kAccepted);
    try {
      const auto found = index.curve(*name, detail);
      out += (i == 0 ? "" : ",") + (found ? json_text(*found) : "null");
    } catch (const DataError&) {
      return wrong_query(kAccepted);
    }
  }
  return {200, kJson, out + "]"};
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// An IPv4 or IPv6 address, which no foreign site can have as its name.
bool is_address(const std::string& name) {
  std::array<unsigned char, 16> bytes{};
  return ::inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 || ::inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
}
bool is_loopback(const std::string& name) { return name == "localhost" || name == "::1" || (name.starts_with("127.") && is_address(name)); }

void add(std::string& out, const char* key, const std::vector<Curve::Cell>& cells, auto value) {
  fmt::format_to(std::back_inserter(out), ",\"{}\":[", key);
  for (std::size_t i = 0; i < cells.size(); ++i) fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : ",", value(cells[i]));
  out += ']';
}

}  // namespace

Response plain(unsigned status, std::string text) { return {status, "text/plain; charset=utf-8", std::move(text) + "\n"}; }

std::string json_text(const Curve& curve) {
  std::string out = fmt::format("{{\"width\":{}", curve.width);
  add(out, "x", curve.cells, [](const Curve::Cell& c) { return c.x; });
  add(out, "mean", curve.cells, [](const Curve::Cell& c) { return c.mean; });
  if (!std::ranges::all_of(curve.cells, [](const Curve::Cell& c) { return c.low == c.high; })) {
    add(out, "low", curve.cells, [](const Curve::Cell& c) { return c.low; });
    add(out, "high", curve.cells, [](const Curve::Cell& c) { return c.high; });
  }
  return out + "}";
}

Response answer(const RunIndex& index, std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  const std::string_view query = path.size() < target.size() ? target.substr(path.size() + 1) : std::string_view();
  if (path == "/api/runs") return runs(index, query);
  if (path == "/api/about") return about(index, query);
  if (path == "/api/curves") return curves(index, query);
  if (path == "/" && query.empty()) return {200, "text/html; charset=utf-8", live_page()};
  for (const PageFile& file : page_files())
    if (query.empty() && path.substr(0, 1) == "/" && path.substr(1) == file.name && (file.is_script() || file.is_style()))
      return {200, file.is_script() ? "text/javascript; charset=utf-8" : "text/css; charset=utf-8", std::string(file.text)};
  return plain(404, "there is no such page");
}

HostNames::HostNames(const std::string& address, std::vector<std::string> others) : is_loopback_only_(is_loopback(lower(address))) {
  for (const std::string& one : others) others_.push_back(lower(one));
}

bool HostNames::accept(std::string_view host) const {
  std::string name = lower(host);
  if (name.starts_with('[')) {
    const auto end = name.find(']');
    if (end == name.npos) return false;
    const std::string port = name.substr(end + 1);
    if (!port.empty() && (port[0] != ':' || !std::ranges::all_of(port.substr(1), [](char c) { return c >= '0' && c <= '9'; }))) return false;
    name = name.substr(1, end - 1);
  } else if (const auto colon = name.find(':'); colon != name.npos) {
    const std::string port = name.substr(colon + 1);
    if (!std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; })) return false;
    name.resize(colon);
  }
  if (is_loopback(name)) return true;
  return !is_loopback_only_ && (is_address(name) || std::ranges::count(others_, name) > 0);
}

}  // namespace gemel::monitor
