#include "frontends/cli/run/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/files/file.h"

namespace gemel::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string track_names(int rank, Track track) {
  const int id = static_cast<int>(track);
  const Json process{{"name", "process_name"}, {"ph", "M"}, {"pid", rank}, {"args", {{"name", fmt::format("rank {}", rank)}}}};
  const Json thread{{"name", "thread_name"},
                    {"ph", "M"},
                    {"pid", rank},
                    {"tid", id},
                    {"args", {{"name", track == Track::communication ? "communication" : "compute queue"}}}};
  return "\n" + process.dump() + ",\n" + thread.dump();
}

double microseconds(std::int64_t ns) { return 1e-3 * static_cast<double>(ns); }
std::int64_t nanoseconds(const Json& microseconds) { return std::llround(1e3 * microseconds.get<double>()); }

/// Paths may hold any bytes, JSON only UTF-8.
std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json json_of(const TraceEvent& e, std::int64_t zero) {
  return {{"name", e.name},
          {"cat", e.track == Track::communication ? "communication" : "kernel"},
          {"ph", "X"},
          {"ts", microseconds(e.begin_ns - zero)},
          {"dur", microseconds(e.end_ns - e.begin_ns)},
          {"pid", e.rank},
          {"tid", static_cast<int>(e.track)},
          {"args", {{"flops", e.flops}, {"bytes", e.bytes}}}};
}

}  // namespace

std::string packed(const std::vector<TraceEvent>& events) {
  Json all = Json::array();
  for (const TraceEvent& e : events) all.push_back({e.name, static_cast<int>(e.track), e.rank, e.begin_ns, e.end_ns, e.flops, e.bytes});
  return all.dump();
}

std::vector<TraceEvent> unpacked(std::string_view text) {
  std::vector<TraceEvent> out;
  try {
    for (const nlohmann::json& e : nlohmann::json::parse(text))
      out.push_back({e.at(0), static_cast<Track>(e.at(1).get<int>()), e.at(2), e.at(3), e.at(4), e.at(5), e.at(6)});
  } catch (const Json::exception&) {
    throw CommError("profile: a rank's events cannot be read; accepted: what ranks of one version send");
  }
  return out;
}

void write_trace(const std::string& file, ChromeTrace trace) {
  std::ranges::stable_sort(trace.events, {}, [](const TraceEvent& e) { return std::tuple(e.rank, e.track, e.begin_ns); });
  std::set<std::pair<int, Track>> tracks{{0, Track::compute_queue}};
  std::int64_t zero = trace.events.empty() ? 0 : trace.events.front().begin_ns;
  for (const TraceEvent& e : trace.events) {
    tracks.emplace(e.rank, e.track);
    zero = std::min(zero, e.begin_ns);
  }
  Json checkpoints = Json::array();
  for (const TracedCheckpoint& c : trace.checkpoints) checkpoints.push_back({{"step", c.step}, {"folder", c.folder}, {"ts", microseconds(c.at_ns - zero)}});
  write_file_atomically(file, [&](FileWriter& out) {
    std::string text = "{\"traceEvents\":[", comma;
    for (const auto& [rank, track] : tracks) text += std::exchange(comma, ",") + track_names(rank, track);
    for (const TraceEvent& e : trace.events) {
      text += ",\n" + json_of(e, zero).dump();
      if (text.size() > (1u << 20)) {
        out.write(text);
        text.clear();
      }
    }
    out.write(text + "\n],\"otherData\":" + dumped({{"checkpoints", checkpoints}}) + "}\n");
  });
}

ChromeTrace read_trace(const std::string& file) {
  ChromeTrace out;
  try {
    const auto content = read_whole(file);
    const Json all = Json::parse(as_text(content));
    for (const Json& e : all.at("traceEvents")) {
      if (e.at("ph") != "X") continue;
      const std::int64_t begin = nanoseconds(e.at("ts"));
      out.events.push_back({e.at("name"), static_cast<Track>(e.at("tid").get<int>()), e.at("pid"), begin, begin + nanoseconds(e.at("dur")),
                            e.at("args").at("flops"), e.at("args").at("bytes")});
    }
    for (const Json& c : all.at("otherData").at("checkpoints")) out.checkpoints.push_back({c.at("step"), c.at("folder"), nanoseconds(c.at("ts"))});
  } catch (const DataError&) {  // it is not there
    return {};
  } catch (const Json::exception&) {
    return {};
  }
  return out;
}

ChromeTrace continued(const ChromeTrace& before, const std::string& folder, std::int64_t step, ChromeTrace now) {
  const auto is_base = [&](const TracedCheckpoint& c) { return c.step <= step && c.folder == folder; };
  const auto last = std::ranges::find_if(before.checkpoints.rbegin(), before.checkpoints.rend(), is_base);
  if (last == before.checkpoints.rend()) return now;
  ChromeTrace out;
  out.checkpoints.assign(before.checkpoints.begin(), last.base());
  std::int64_t end = last->at_ns;
  for (const TraceEvent& e : before.events) {
    if (e.begin_ns >= last->at_ns) continue;
    out.events.push_back(e);
    end = std::max(end, e.end_ns);
  }
  if (now.events.empty()) return out;
  const std::int64_t shift = end - std::ranges::min(now.events, {}, &TraceEvent::begin_ns).begin_ns;
  for (TraceEvent& e : now.events) {
    e.begin_ns += shift;
    e.end_ns += shift;
    out.events.push_back(std::move(e));
  }
  for (TracedCheckpoint& c : now.checkpoints) {
    c.at_ns += shift;
    out.checkpoints.push_back(std::move(c));
  }
  return out;
}

}  // namespace gemel::cli
