#include "frontends/cli/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/file.h"

namespace gemel::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string track_names(int rank, Track track) {
  const int id = static_cast<int>(track);
  const Json process{{"name", "process_name"}, {"ph", "M"}, {"pid", rank}, {"args", {{"name", fmt::format("rank {}", rank)}}}};
  const Json thread{{"name", "thread_name"}, {"ph", "M"}, {"pid", rank}, {"tid", id},
                    {"args", {{"name", track == Track::communication ? "communication" : "compute queue"}}}};
  return "\n" + process.dump() + ",\n" + thread.dump();
}

Json json_of(const TraceEvent& e, std::int64_t zero) {
  return {{"name", e.name}, {"cat", e.track == Track::communication ? "communication" : "kernel"}, {"ph", "X"},
          {"ts", 1e-3 * static_cast<double>(e.begin_ns - zero)}, {"dur", 1e-3 * static_cast<double>(e.end_ns - e.begin_ns)}, {"pid", e.rank},
          {"tid", static_cast<int>(e.track)}, {"args", {{"flops", e.flops}, {"bytes", e.bytes}}}};
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
    for (const nlohmann::json& e : nlohmann::json::parse(text)) out.push_back({e.at(0), static_cast<Track>(e.at(1).get<int>()), e.at(2), e.at(3), e.at(4), e.at(5), e.at(6)});
  } catch (const Json::exception&) {
    throw CommError("profile: a rank's events cannot be read; accepted: what ranks of one version send");
  }
  return out;
}

void write_trace(const std::string& file, std::vector<TraceEvent> events) {
  std::ranges::stable_sort(events, {}, [](const TraceEvent& e) { return std::tuple(e.rank, e.track, e.begin_ns); });
  std::set<std::pair<int, Track>> tracks{{0, Track::compute_queue}};
  std::int64_t zero = events.empty() ? 0 : events.front().begin_ns;
  for (const TraceEvent& e : events) {
    tracks.emplace(e.rank, e.track);
    zero = std::min(zero, e.begin_ns);
  }
  write_file_atomically(file, [&](FileWriter& out) {
    std::string text = "{\"traceEvents\":[", comma;
    for (const auto& [rank, track] : tracks) text += std::exchange(comma, ",") + track_names(rank, track);
    for (const TraceEvent& e : events) {
      text += ",\n" + json_of(e, zero).dump();
      if (text.size() > (1u << 20)) {
        out.write(text);
        text.clear();
      }
    }
    out.write(text + "\n]}\n");
  });
}

}  // namespace gemel::cli
