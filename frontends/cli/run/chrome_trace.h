// A Chrome trace: work of the ranks of a run on their tracks, for programs that show such files.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace gemel::cli {

/// The tracks of a rank.
enum class Track { compute_queue = 0, communication = 1 };

struct TraceEvent {
  std::string name;
  Track track = Track::compute_queue;
  int rank = 0;
  std::int64_t begin_ns = 0, end_ns = 0;  // of one clock for all ranks
  std::int64_t flops = 0, bytes = 0;
};

/// In one piece of text, for another rank; and back.
std::string packed(const std::vector<TraceEvent>& events);
/// @throws CommError where the text is none of `packed`'s
std::vector<TraceEvent> unpacked(std::string_view text);

/// A checkpoint of the run that was traced: what began before it is of its step or of an earlier one.
struct TracedCheckpoint {
  std::int64_t step = 0;
  std::string folder;
  std::int64_t at_ns = 0;  // of the events' clock
};

struct ChromeTrace {
  std::vector<TraceEvent> events;
  std::vector<TracedCheckpoint> checkpoints;  // in order
};

/// Times begin with the first event. @throws DataError where the file cannot be written
void write_trace(const std::string& file, ChromeTrace trace);
/// What `write_trace` wrote, to the nanosecond; nothing where the file is not there or none of its.
ChromeTrace read_trace(const std::string& file);
/// The trace of a run that goes on from a checkpoint: of what came before, the part up to the last checkpoint in that folder which is of the step or of
/// an earlier one, and right behind it what was traced since. @param before  of the earlier parts of the run  @param now  since, on another clock
ChromeTrace continued(const ChromeTrace& before, const std::string& folder, std::int64_t step, ChromeTrace now);

}  // namespace gemel::cli
