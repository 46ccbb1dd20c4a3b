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

/// Times begin with the first event. @throws DataError where the file cannot be written
void write_trace(const std::string& file, std::vector<TraceEvent> events);

}  // namespace gemel::cli
