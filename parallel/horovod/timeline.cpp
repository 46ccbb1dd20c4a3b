#include "parallel/horovod/timeline.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/numbers.h"

namespace gemel::parallel::horovod {
namespace {

constexpr const char* kCycles = "cycles";

}  // namespace

void Timeline::add(const std::string& tensor, std::string phase, std::int64_t begin_ns, std::int64_t end_ns) {
  if (keeps()) spans_.push_back({tensor, std::move(phase), begin_ns, end_ns});
}

void Timeline::mark_cycle() {
  if (keeps() && marks_cycles_) spans_.push_back({"", "CYCLE_START", steady_ns(), 0});
}

/// Its objects, with commas between: a process a rank, a thread a tensor.
std::string Timeline::events_of(int rank, std::int64_t lead_ns) const {
  constexpr double kPerMicrosecond = 1e-3;
  std::map<std::string, std::size_t> track;
  std::string out = nlohmann::json{{"name", "process_name"}, {"ph", "M"}, {"pid", rank}, {"args", {{"name", fmt::format("rank {}", rank)}}}}.dump();
  const auto add = [&out](const nlohmann::json& event) { out += ",\n" + event.dump(); };
  for (const Span& s : spans_) {
    const std::string name = s.tensor.empty() ? kCycles : s.tensor;
    const auto [it, is_new] = track.try_emplace(name, track.size());
    if (is_new) add({{"name", "thread_name"}, {"ph", "M"}, {"pid", rank}, {"tid", it->second}, {"args", {{"name", name}}}});
    nlohmann::json event{
        {"name", s.phase}, {"cat", "horovod"}, {"pid", rank}, {"tid", it->second}, {"ts", kPerMicrosecond * static_cast<double>(s.begin_ns + lead_ns)}};
    if (s.tensor.empty())
      event.update({{"ph", "i"}, {"s", "p"}});
    else
      event.update({{"ph", "X"}, {"dur", kPerMicrosecond * static_cast<double>(s.end_ns - s.begin_ns)}});
    add(event);
  }
  return out;
}

void Timeline::write(Collectives& c, std::int64_t lead_ns) {
  const std::string mine = events_of(c.rank(), lead_ns);
  spans_.clear();
  const auto all = c.all_gather(std::as_bytes(std::span(mine)));
  if (c.rank() != 0) return;
  std::string events;
  for (const auto& theirs : all) events.append(events.empty() ? "" : ",\n").append(reinterpret_cast<const char*>(theirs.data()), theirs.size());
  write_file(events);
}

void Timeline::write_alone() {
  write_file(events_of(0, 0));
  spans_.clear();
}

void Timeline::write_file(const std::string& events) const {
  try {
    write_file_atomically(file_, [&](FileWriter& out) { out.write("{\"traceEvents\":[\n" + events + "\n]}\n"); });
  } catch (const DataError& e) {
    throw DataError(fmt::format("HOROVOD_TIMELINE: {}", e.what()));
  }
}

}  // namespace gemel::parallel::horovod
