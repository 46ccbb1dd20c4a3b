// Timeline: when each tensor was negotiated, queued, packed and reduced on every rank, as a Chrome trace (HOROVOD_TIMELINE).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "parallel/collectives/collectives.h"

namespace gemel::parallel::horovod {

/// Records the phases of one rank, in its communication thread.
class Timeline {
 public:
  /// @param file  empty: nothing is recorded
  Timeline(std::string file, bool marks_cycles) : file_(std::move(file)), marks_cycles_(marks_cycles) {}

  bool keeps() const { return !file_.empty(); }
  void add(const std::string& tensor, std::string phase, std::int64_t begin_ns, std::int64_t end_ns);
  void mark_cycle();
  /// Writes the phases of all ranks, by rank 0's clock, to rank 0's file. Collective.
  /// @param lead_ns  how far rank 0's clock is ahead of this one's
  /// @throws DataError on rank 0 if the file cannot be written
  void write(Collectives& c, std::int64_t lead_ns);
  /// Writes rank 0's phases alone, when other ranks can no longer be reached.
  /// @throws DataError
  void write_alone();

  /// Records a phase of several tensors, as long as it lives.
  /// @param parts  each with a `request` that has a `name`
  class Phases {
   public:
    template <class Parts>
    Phases(Timeline& timeline, const Parts& parts, const char* phase) : timeline_(timeline), phase_(phase), begin_(steady_ns()) {
      if (timeline.keeps())
        for (const auto& p : parts) tensors_.push_back(p.request.name);
    }
    ~Phases() {
      for (const std::string& t : tensors_) timeline_.add(t, phase_, begin_, steady_ns());
    }
    Phases(const Phases&) = delete;
    Phases& operator=(const Phases&) = delete;

   private:
    Timeline& timeline_;
    const char* phase_;
    std::int64_t begin_;
    std::vector<std::string> tensors_;
  };

 private:
  struct Span {
    std::string tensor, phase;  // no tensor: a mark on the cycles' track
    std::int64_t begin_ns, end_ns;
  };
  std::string events_of(int rank, std::int64_t lead_ns) const;
  void write_file(const std::string& events) const;

  std::string file_;
  bool marks_cycles_;
  std::vector<Span> spans_;
};

}  // namespace gemel::parallel::horovod
