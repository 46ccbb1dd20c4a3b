#include "frontends/cli/run/joined_trace.h"

#include "frontends/distributed/data_parallel.h"
#include "parallel/transport/clock_offset.h"

namespace gemel::cli {

void add_communication(RunScope& run, const std::vector<parallel::Span>& spans) {
  std::vector<TraceEvent> events;
  for (const parallel::Span& s : spans) events.push_back({s.what, Track::communication, 0, s.begin_ns, s.end_ns, 0, s.bytes});
  run.add_trace(events);
}

void join_traces(RunScope& run, Job& job) {
  if (!job.communication() || run.options().profile.empty()) return;
  std::vector<TraceEvent> mine = run.take_trace();
  const std::int64_t lead = job.communication()->run([](parallel::Collectives& c) { return parallel::clock_lead_ns(c.communicator()); });
  for (TraceEvent& e : mine) {
    e.rank = job.rank();
    e.begin_ns += lead;
    e.end_ns += lead;
  }
  const std::vector<std::string> all = distributed::texts_of_ranks(*job.communication(), packed(mine));
  if (job.rank() != 0) return;
  for (const std::string& text : all) run.add_trace(unpacked(text));
}

}  // namespace gemel::cli
