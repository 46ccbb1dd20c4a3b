#include "frontends/cli/job.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/span.h"
#include "frontends/cli/say.h"
#include "parallel/mpi_communicator.h"

namespace gemel::cli {
namespace {

/// After a loss, for the run to write its record; then the process ends whatever it does.
constexpr std::chrono::seconds kLastWords{3};

/// On standard error, as every error is, also where a rank does not speak otherwise.
void tell(const std::string& line) {
  const std::string text = "gemel: " + line + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

Job::Job(const ParallelOptions& options) {
  if (options.style.empty()) return;
  const auto launch = parallel::mpi_launch();
  if (!launch)
    throw UsageError(fmt::format("--parallel {}: mpirun did not start this process; accepted: gemel launch --np 2 train --parallel {} ...", options.style, options.style));
  if (launch->rank != 0) speaks() = false;
  try {
    communication_ = std::make_unique<parallel::CommunicationThread>(parallel::mpi_communicator, options.collective);
  } catch (const UsageError&) {  // the same on every rank
    if (launch->rank != 0) throw Told();
    throw;
  }
  const std::vector<std::string>& hosts = communication_->placement().hosts;
  watch_ = std::make_unique<parallel::FailureWatch>(rank(), hosts, options.watch,
                                                    parallel::FailureWatch::Callbacks{.on_loss = [this](const parallel::Loss& loss) { lost(loss); },
                                                                                      .on_warning = [](const std::string& line) { tell(line); }});
  std::string address = watch_->address();
  address.resize(std::size_t{1} << 13, ' ');
  communication_->run([&](parallel::Collectives& c) { c.broadcast(std::as_writable_bytes(std::span(address))); });
  watch_->connect(address.substr(0, address.find_last_not_of(' ') + 1));
}

Job::~Job() = default;

/// In the watch's thread. Waits end with an error, so that the run is recorded as one that failed.
void Job::lost(const parallel::Loss& loss) {
  if (is_over_.exchange(true)) return;
  const int speaker = loss.rank == 0 ? 1 : 0;
  const std::string line = parallel::describe(loss, size(), rank(), watch_->waiting_for());
  if (rank() == speaker) tell(line);
  communication_->abort(line);
  std::thread([] {
    std::this_thread::sleep_for(kLastWords);
    _exit(1);
  }).detach();
}

opencl::DeviceOptions Job::share_of(opencl::DeviceOptions device) const {
  if (!communication_ || device.threads > 0) return device;
  cpu_set_t bound;
  CPU_ZERO(&bound);
  const int all = static_cast<int>(std::thread::hardware_concurrency());
  const int mine = sched_getaffinity(0, sizeof bound, &bound) == 0 ? CPU_COUNT(&bound) : all;
  const auto beside = static_cast<int>(communication_->placement().beside(rank()).size());
  device.threads = mine < static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) ? mine : std::max(1, all / beside);
  return device;
}

int Job::carry_out(const std::function<int()>& body) {
  if (!communication_) return body();
  int status = 1;
  try {
    status = body();
  } catch (const Told&) {
    throw;
  } catch (const std::exception& e) {
    if (is_over_.exchange(true)) throw Told();
    const auto loss = watch_->report(e.what());
    communication_->abort(e.what());
    if (!loss) tell(e.what());
    else if (rank() == 0) tell(parallel::describe(*loss, size(), 0, ""));
    throw Told();
  }
  watch_->goodbye();
  return status;
}

void Job::progress(const std::string& waiting_for) {
  if (!watch_) return;
  watch_->progress();
  watch_->waiting_for(waiting_for);
}

}  // namespace gemel::cli
