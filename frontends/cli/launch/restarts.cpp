#include "frontends/cli/launch/restarts.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/files/folder_lock.h"
#include "frontends/cli/launch/mpirun.h"
#include "frontends/cli/system/console.h"
#include "frontends/train/checkpoint/checkpoint.h"
#include "frontends/train/record/run_log.h"
#include "parallel/watch/addresses.h"

namespace gemel::cli {
namespace {

constexpr const char* kLosses = ".lost-";
constexpr int kMostInVain = 2;  // losses in a row before a first checkpoint: the next one would be a third

std::string counted(std::int64_t count, const char* one) { return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s"); }

/// In place of the --resume that was given, if any: the checkpoints are this job's own now.
Arguments with_resume(const Arguments& command) {
  Arguments out;
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (command[i] == "--resume")
      ++i;
    else if (!command[i].starts_with("--resume="))
      out.push_back(command[i]);
  }
  out.insert(out.end(), {"--resume", "auto"});
  return out;
}

/// What a launcher that was killed left.
void remove_losses_in(const std::filesystem::path& folder) { forget_losses({.losses = (folder / kLosses).string()}); }

/// Of a job whose ranks have ended: the next rank 0 may be on another machine, from which nobody sees that the one before is gone.
void give_up_folders(const TrainOptions& training) {
  std::error_code gone;
  std::filesystem::remove(FolderLock::file_in(training.checkpoint_dir, train::kCheckpoint), gone);
  if (!training.common.log_dir.empty()) std::filesystem::remove(FolderLock::file_in(training.common.log_dir, train::kLog), gone);
}

/// Of a rank, by the slots that mpirun fills one machine after the other.
const std::string& host_of(int rank, const std::vector<Host>& hosts) {
  std::int64_t end = 0;
  const auto found = std::ranges::find_if(hosts, [&](const Host& host) { return rank < (end += host.slots); });
  return found == hosts.end() ? hosts.back().name : found->name;
}

bool is_among(const std::string& host, const std::vector<HostAnswer>& asked) { return std::ranges::find(asked, host, &HostAnswer::host) != asked.end(); }

}  // namespace

RestartedJob::RestartedJob(const LaunchOptions& launch)
    : next_(launch), command_(launch.command), folder_(launch.training->checkpoint_dir), token_(parallel::random_token()), left_(*launch.restarts) {
  remove_losses_in(folder_);
  if (launch.training->resume == "auto") {
    last_ = newest();
    return;
  }
  std::error_code gone;
  for (const auto& file : train::checkpoints_in(folder_)) of_others_.emplace_back(file, std::filesystem::last_write_time(file, gone));
}

RestartedJob::~RestartedJob() { remove_losses_in(folder_); }

int RestartedJob::run() {
  while (start()) plan_next();
  return exit_status(end_, next_);
}

/// @return whether it was lost: a rank told of a loss, or mpirun of a signal that ended one. An error of the program's own ends it otherwise, and its
///         ranks tell each other of the error; a job that is stopped is not lost.
bool RestartedJob::start() {
  std::error_code gone;
  told_.losses = std::filesystem::absolute(folder_ / fmt::format("{}{}-{}", kLosses, token_, told_.restart), gone).string();
  end_ = run_mpirun(next_, told_);
  losses_ = told_losses(told_);
  forget_losses(told_);
  const bool of_other_machine = end_.status > JobEnd::kOfSignal && !next_.hosts.empty();
  return end_.status != 0 && !stop_asked() && (!losses_.empty() || end_.by_signal() || of_other_machine);
}

/// The newest whole checkpoint, if it is one of this job's.
std::optional<RestartedJob::Checkpoint> RestartedJob::newest() const {
  const auto file = train::newest_checkpoint(folder_, [](const std::string&) {});  // rank 0 tells of those that are torn
  if (!file) return std::nullopt;
  std::error_code gone;
  Checkpoint out{*file, std::filesystem::last_write_time(*file, gone)};
  return std::ranges::find(of_others_, out) == of_others_.end() ? std::optional(out) : std::nullopt;
}

/// @throws Error where there is no next start
void RestartedJob::plan_next() {
  const std::vector<HostAnswer> silent = silent_hosts(next_.hosts);
  const LostRank lost = first_lost(silent);
  const std::string what = "launch: " + lost.text();
  if (stop_asked()) throw Error(what + "; interrupted before it was started again");
  const std::optional<Checkpoint> from = newest();
  in_vain_ = from == last_ ? in_vain_ + 1 : 0;
  last_ = from;
  if (in_vain_ == kMostInVain)
    throw Error(fmt::format(
        "{}: before a {}, as the start before; it is not started again; accepted: a job that comes to a checkpoint, with --checkpoint-every for an earlier one",
        what, from ? "checkpoint later than " + from->first.string() : "first checkpoint"));
  if (left_-- == 0) throw Error(fmt::format("{}; none is left of --restarts {}", what, *next_.restarts));
  const std::string left_out = leave_out(silent);
  give_up_folders(*next_.training);
  next_.command = from ? with_resume(command_) : command_;
  ++told_.restart;
  told_.lost = lost;
  say("{}; {}{} {} from {}; {} left\n", what, left_out, counted(next_.ranks, "rank"), next_.ranks == 1 ? "goes on" : "go on",
      from ? from->first.string() : "where the job began", counted(left_, "restart"));
}

/// Where a network was cut both sides say that the other was lost: that of the machines that answer counts.
LostRank RestartedJob::first_lost(const std::vector<HostAnswer>& silent) const {
  const auto told_here = [&](const ToldLoss& told) { return next_.hosts.empty() || !is_among(host_of(told.by, next_.hosts), silent); };
  if (const auto found = std::ranges::find_if(losses_, told_here); found != losses_.end()) return found->lost;
  if (!losses_.empty()) return losses_.front().lost;
  return {.rank = {}, .ranks = next_.ranks, .host = {}, .why = "was lost: " + end_.signal_text()};
}

/// The ranks of these machines have no place any more, but for slots that others have free. The launching one always answers.
/// @return "host b does not answer: ..., and is left out; ", or nothing
std::string RestartedJob::leave_out(const std::vector<HostAnswer>& silent) {
  if (silent.empty()) return "";
  const std::string text = text_of_silence(silent);
  std::erase_if(next_.hosts, [&](const Host& host) { return is_among(host.name, silent); });
  if (next_.hosts.empty()) throw Error(fmt::format("launch: {}; none is left to go on with", text));
  next_.ranks = std::min(next_.ranks, slots_of(next_.hosts));
  return fmt::format("{}, and {} left out; ", text, silent.size() == 1 ? "is" : "are");
}

}  // namespace gemel::cli
