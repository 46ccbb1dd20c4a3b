#include "frontends/monitor/export_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "engine/base/error.h"
#include "frontends/monitor/page_files.h"
#include "frontends/monitor/routes.h"

namespace gemel::monitor {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostPoints = 2000, kFewestPoints = 250;

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// What JSON takes in the page, where each `<` is written longer.
std::size_t bytes_in_page(const std::string& json) { return json.size() + 5 * static_cast<std::size_t>(std::ranges::count(json, '<')); }

/// A run's curves of one kind have cells of one width, so that its ranks share their x.
std::map<std::string, double> widths(const Json& run, std::size_t points) {
  std::map<std::string, Detail> ranges;
  for (const Json& s : run["series"]) {
    const std::string event = s["event"];
    const auto [at, is_new] = ranges.try_emplace(event, Detail{.from = s["first"], .to = s["last"], .is_counted = event != "usage", .most = points});
    at->second.from = std::min(at->second.from, s["first"].get<double>());
    at->second.to = std::max(at->second.to, s["last"].get<double>());
  }
  std::map<std::string, double> out;
  for (const auto& [event, range] : ranges) out[event] = cell_width(range);
  return out;
}

/// A run's configuration and curves: {"about":{..},"curves":{"0":{..}}}
std::string data_of(const RunIndex& index, const Json& run, std::size_t points) {
  const std::string id = run["id"];
  const auto width = widths(run, points);
  const auto about = index.about(id);
  std::string out = fmt::format("{{\"about\":{},\"curves\":{{", about ? text_of(*about) : "{}");
  bool is_first = true;
  for (const Json& s : run["series"]) {
    const auto curve = index.curve({id, s["id"]}, {.from = s["first"], .to = s["last"], .width = width.at(s["event"])});
    if (!curve) continue;
    out += fmt::format("{}\"{}\":{}", is_first ? "" : ",", s["id"].get<int>(), json_text(*curve));
    is_first = false;
  }
  return out + "}}";
}

}  // namespace

ExportedPage exported_page(const RunIndex& index, std::size_t most_bytes) {
  Json all = index.runs(0);
  auto& runs = all["runs"].get_ref<Json::array_t&>();
  std::ranges::stable_sort(runs, [](const Json& a, const Json& b) { return a["written"].get<double>() > b["written"].get<double>(); });
  const std::size_t room = most_bytes - std::min(most_bytes, page_with("").size() + (64 << 10));  // and some for what stands around the runs
  for (std::size_t points = kMostPoints;; points /= 2) {
    const bool is_coarsest = points / 2 < kFewestPoints;
    Json shown = Json::array();
    std::string data;
    std::size_t bytes = 0;
    for (const Json& run : runs) {
      const std::string one = fmt::format("{}\"{}\":{}", data.empty() ? "" : ",", run["id"].get<std::string>(), data_of(index, run, points));
      const std::size_t more = bytes_in_page(one) + bytes_in_page(text_of(run)) + 100;
      if (bytes + more > room && !is_coarsest) break;
      if (bytes + more > room) continue;  // others may fit
      bytes += more;
      data += one;
      shown.push_back(run);
    }
    const std::size_t left_out = runs.size() - shown.size();
    if (left_out > 0 && !is_coarsest) continue;
    if (shown.empty() && !runs.empty())
      throw DataError(
          fmt::format("monitor: no run fits in {} bytes, the page alone takes {}; accepted: a folder with fewer lines", most_bytes, page_with("").size()));
    ExportedPage out{.runs = shown.size(), .left_out = left_out, .points = points};
    all["runs"] = std::move(shown);
    all.erase("ids");
    all["left_out"] = left_out;
    out.text = page_with(fmt::format("{{\"all\":{},\"data\":{{{}}}}}", text_of(all), data));
    if (out.runs > 0 && out.text.size() > most_bytes) throw InternalError("monitor: the page takes more than was counted");
    return out;
  }
}

}  // namespace gemel::monitor
