#include "frontends/cli/job/job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/base/resource_limits.h"
#include "frontends/cli/command.h"
#include "frontends/cli/strategies/strategy.h"
#include "frontends/cli/system/console.h"
#include "frontends/cli/system/interrupt.h"
#include "parallel/transport/mpi_communicator.h"
#include "parallel/transport/thread_communicator.h"

namespace gemel::cli {
namespace {

struct Finally {
  std::function<void()> then;
  ~Finally() { then(); }
};

/// After a loss, for the run to write its record; then the process ends whatever it does.
constexpr std::chrono::seconds kLastWords{3};

}  // namespace

void tell(const std::string& line) {
  const std::string text = "gemel: " + line + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

void NoteBoard::post(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (notes_.size() == kMost) notes_.pop_front();
  notes_.push_back({line, std::chrono::steady_clock::now()});
}

std::deque<NoteBoard::Note> NoteBoard::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notes_, {});
}

Job::Job(const ParallelOptions& options) : options_(options) {
  if (strategy().ranks_are() == RanksAre::one_process) return;
  const auto launch = parallel::mpi_launch();
  if (!launch)
    throw UsageError(
        fmt::format("--parallel {0}: mpirun did not start this process; accepted: gemel launch --np 2 train --parallel {0} ...", strategy().name()));
  launched_ = Launched::here();
  if (launched_.joins_streams) message_stream() = stdout;
  become_rank(parallel::mpi_communicator, launch->rank);
  try {
    watch_others();
  } catch (const std::exception& e) {  // the orderly end would wait for the others, which wait for this one
    communication_->abort(worded(e));
    throw;
  }
}

Job::Job(const ParallelOptions& options, std::unique_ptr<parallel::Communicator> communicator, std::shared_ptr<NoteBoard> notes)
    : options_(options), notes_(std::move(notes)) {
  const int rank = communicator->rank();
  become_rank([&] { return std::move(communicator); }, rank);
}

void Job::become_rank(std::function<std::unique_ptr<parallel::Communicator>()> communicator, int rank) {
  if (rank != 0) speaks() = false;
  const bool is_thread = strategy().ranks_are() == RanksAre::threads;
  if (rank != 0 && !is_thread) InterruptGuard::leave_answer_to_another();
  try {
    communication_ = std::make_unique<parallel::CommunicationThread>(std::move(communicator), options_.collective);
  } catch (const UsageError&) {  // the same on every rank
    if (rank != 0 && is_thread) throw ReportedError{kWrongUsage};
    throw;  // of processes the first one says it
  }
}

void Job::watch_others() {
  const std::vector<std::string>& hosts = communication_->placement().hosts;
  watch_ =
      std::make_unique<parallel::FailureDetector>(rank(), hosts, options_.watch,
                                                  parallel::FailureDetector::Callbacks{.on_loss = [this](const parallel::Loss& loss) { lost(loss); },
                                                                                       .on_warning = [](const std::string& line) { tell(line); },
                                                                                       .on_note = [this](int, const std::string& line) { notes_->post(line); },
                                                                                       .on_departure = [this](const parallel::Loss& loss) { departed(loss); },
                                                                                       .detail = [this] { return communication_->doing(); }});
  std::string address = watch_->address();
  address.resize(std::size_t{1} << 13, ' ');
  communication_->run([&](parallel::Collectives& c) { c.broadcast(std::as_writable_bytes(std::span(address))); });
  watch_->connect(address.substr(0, address.find_last_not_of(' ') + 1));
}

Job::~Job() = default;

/// In the watch's thread. Waits end with an error, so that the run is recorded as one that failed.
void Job::lost(const parallel::Loss& loss) {
  const bool is_own = is_loss_of_this(loss), is_cut_off = may_be_cut_off(loss);
  is_given_up_ = is_own || is_cut_off;
  if (is_over_.exchange(true)) return;
  const int speaker = loss.ranks.empty() && loss.rank == 0 ? 1 : 0;  // an error of its own rank 0 tells itself
  const std::string line = parallel::describe(loss, size(), rank(), watch_->waiting_for());
  if (is_cut_off) {
    tell_launcher(loss);
  } else if (is_own && outlives_ranks()) {
    tell(given_up_text(rank(), size()));
  } else if (rank() == speaker) {
    tell(line);
    if (outlives_ranks()) tell_end(Launched::failed());
  }
  communication_->abort(line);
  {
    const std::lock_guard lock(means_mutex_);
    if (means_.abort) means_.abort(line);
  }
  std::thread([] {
    std::this_thread::sleep_for(kLastWords);
    _exit(Launched::failed());
  }).detach();
  if (!is_given_up_) tell_launcher(loss);  // the folder may be one that does not answer
}

/// In the watch's thread.
void Job::departed(const parallel::Loss& loss) {
  if (is_over_) return;
  tell(parallel::describe(loss, size(), rank(), "") + "; the others go on");
  tell_gone_on_without(loss.rank);
  const std::lock_guard lock(means_mutex_);
  if (means_.lose) means_.lose(loss.rank, loss.why);
}

void Job::communicate_by(OwnMeans means) {
  const std::lock_guard lock(means_mutex_);
  means_ = std::move(means);
}

bool Job::is_loss_of_this(const parallel::Loss& loss) const { return loss.ranks.empty() ? loss.rank == rank() : std::ranges::count(loss.ranks, rank()) > 0; }

bool Job::outlives_ranks() const { return strategy().style().outlives_ranks && launched_.survives; }

bool Job::need_only(int ranks) {
  if (!outlives_ranks()) return false;
  watch_->need_only(ranks);
  tell_begin();
  return true;
}

/// What is left is the end of MPI, in which each waits for all: one that falls silent there is watched by nobody.
void Job::end_within(double seconds) {
  if (seconds <= 0) return;
  std::thread([seconds, of = rank(), size = size()] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    tell(fmt::format("rank {} of {}: the job is done, but another rank has not ended for {:g} s", of, size, seconds));
    _exit(Launched::failed());
  }).detach();
}

/// Where the job goes on without a rank, one that hears nothing of rank 0 does not know which of the two is lost to the others. The launcher hears of both.
bool Job::may_be_cut_off(const parallel::Loss& loss) const { return outlives_ranks() && rank() != 0 && loss.ranks.empty() && loss.rank == 0; }

/// Of an error that a rank reported it needs no word: the job's exit status is that of an error.
void Job::tell_launcher(const parallel::Loss& loss) const {
  if (!loss.ranks.empty()) return;
  const LostRank lost{.rank = loss.rank, .ranks = size(), .host = loss.host, .why = loss.why};
  if (may_be_cut_off(loss))
    tell_loss_of_rank_0(rank(), lost);
  else
    tell_loss(launched_, rank(), lost);
}

/// Where not every rank of this machine computes all the time, of cores that all are bound to.
int Job::cores_where_some_sleep() const {
  const std::vector<int> beside = communication_->placement().beside(rank());
  const auto computing = std::ranges::count_if(beside, [this](int r) { return strategy().computes(r); });
  return computing == std::ssize(beside) || computing == 0 ? 0 : allowed_cores().count() / static_cast<int>(computing);
}

opencl::DeviceOptions Job::share_of(opencl::DeviceOptions device) const {
  if (!communication_) return device;
  const parallel::Placement& placement = communication_->placement();
  const std::size_t beside = placement.beside(rank()).size(), self = at(placement.local_rank[at(rank())]);
  device.memory_sharers = {.of_host = static_cast<int>(beside), .of_process = parallel::mpi_launch() ? 1 : static_cast<int>(beside)};
  if (device.threads == 0) {  // before a driver starts, which would place the workers of every rank on the first processors
    device.threads = std::max({1, placement.cores[at(rank())], cores_where_some_sleep()});
    device.threads_are_a_share = true;
  }
  std::vector<DeviceName> names = options_.devices;
  if (names.empty() && device.device.empty())
    if (const auto alike = opencl::Device::alike(device); alike.size() >= beside && beside > 1)
      for (const std::string& d : alike) names.push_back({device.platform, d});
  if (!names.empty() && names.size() < beside)
    throw UsageError(fmt::format("--devices: {} given for {} ranks of {}; accepted: one a rank",
                                 names.size() == 1 ? "one is" : fmt::format("{} are", names.size()), beside, placement.hosts[at(rank())]));
  if (!names.empty()) {
    if (!names[self].platform.empty()) device.platform = names[self].platform;
    device.device = names[self].device;
  }
  return device;
}

int Job::carry_out(const std::function<int()>& body) {
  if (!communication_) return body();
  int status = 1;
  try {
    status = body();
    if (watch_ && !outlives_ranks()) communication_->run([](parallel::Collectives& c) { c.barrier(); });  // as long as one is at work, all watch
  } catch (const ReportedError&) {
    throw;
  } catch (const std::exception& e) {
    const ReportedError told{dynamic_cast<const UsageError*>(&e) ? kWrongUsage : Launched::failed()};
    const Finally tells_end{[&] {
      if (outlives_ranks() && (rank() == 0 || !is_given_up_)) tell_end(told.status);
    }};
    const std::string why = worded(e);
    if (is_over_.exchange(true)) throw told;
    if (!watch_) {
      communication_->abort(fmt::format("rank {} failed: {}", rank(), why));
      throw;  // to be told by the process
    }
    const auto loss = watch_->report(why);
    communication_->abort(why);
    is_given_up_ = loss && (is_loss_of_this(*loss) || may_be_cut_off(*loss));
    if (loss && !is_loss_of_this(*loss)) tell_launcher(*loss);  // the error may come of it
    if (!loss)
      tell(why);
    else if (rank() == 0)
      tell(parallel::describe(*loss, size(), 0, ""));
    throw told;
  }
  if (watch_) {
    watch_->goodbye();
    if (outlives_ranks()) {
      if (rank() == 0) tell_end(status);
      communication_->abort("the job is over");  // the end of MPI would wait for all ranks, of which some may be lost
      return status;
    }
    end_within(options_.watch.heartbeat_s);
  }
  return status;
}

void Job::progress(const std::string& waiting_for) {
  if (!watch_) return;
  watch_->progress();
  watch_->waiting_for(waiting_for);
}

void Job::note(const std::string& line) {
  if (watch_ && rank() != 0)
    watch_->note(line);
  else
    notes_->post(line);
}

bool Job::is_first_of_host() const { return !communication_ || communication_->placement().local_rank[at(rank())] == 0; }

namespace {

/// @throws UsageError where there is one alone
std::vector<DeviceName> replicas_of(const ParallelOptions& options, const opencl::DeviceOptions& device) {
  if (!options.devices.empty()) return options.devices;
  std::vector<DeviceName> out;
  if (device.device.empty())
    for (const std::string& d : opencl::Device::alike(device)) out.push_back({device.platform, d});
  if (out.size() < 2)
    throw UsageError(
        fmt::format("--parallel {}: the platform has one device of its kind; accepted: --devices 0,1 for two of them, --devices 0.0,0.1 for parts of a CPU{}",
                    options.strategy->name(), options.strategy->style().in_processes ? "; or gemel launch --np 2 for a process each" : ""));
  return out;
}

/// Of replicas, whose threads meet errors in any order.
class FirstError {
 public:
  /// In a handler.
  void keep() {
    const std::lock_guard lock(mutex_);
    try {
      throw;
    } catch (const parallel::AbortedError&) {  // comes of another replica's, which may be kept later
      if (!consequence_) consequence_ = std::current_exception();
    } catch (...) {
      if (!cause_) cause_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (cause_) std::rethrow_exception(cause_);
    if (consequence_) std::rethrow_exception(consequence_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr cause_, consequence_;
};

}  // namespace

CommonOptions of_rank(CommonOptions options, const Job& job) {
  options.device = job.share_of(options.device);
  if (job.rank() == 0) return options;
  options.log_dir.clear();
  options.is_first_rank = false;
  return options;
}

int run_job(const ParallelOptions& options, const opencl::DeviceOptions& device, const std::function<int(Job&)>& body) {
  set_denormals(device.denormals);  // of the sums over ranks too: threads that are started have their starter's choice
  if (options.strategy->ranks_are() != RanksAre::threads) {
    Job job(options);
    return job.carry_out([&] { return body(job); });
  }
  if (const auto launch = parallel::mpi_launch(); launch && launch->size > 1)
    throw UsageError(fmt::format("--parallel {}: it is for one process, and mpirun started {}; accepted: ddp", options.strategy->name(), launch->size));
  ParallelOptions named = options;
  named.devices = replicas_of(options, device);
  auto communicators = parallel::thread_communicators(static_cast<int>(named.devices.size()));
  std::vector<int> statuses(communicators.size(), 0);
  FirstError error;
  const auto notes = std::make_shared<NoteBoard>();
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < communicators.size(); ++r)
      threads.emplace_back([&, r] {
        try {
          Job job(named, std::move(communicators[r]), notes);
          statuses[r] = job.carry_out([&] { return body(job); });
        } catch (const ReportedError&) {  // by replica 0
        } catch (...) {
          error.keep();
        }
      });
  }
  error.rethrow();
  return *std::ranges::max_element(statuses);
}

}  // namespace gemel::cli
