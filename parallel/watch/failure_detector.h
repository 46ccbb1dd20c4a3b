// FailureDetector: detects ranks of a job that died, fell silent or failed, and reports them by name on every other rank. It uses sockets of its own: all ranks
// are connected to rank 0, which tells the others.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gemel::parallel {

/// Options, the same on every rank.
struct WatchOptions {
  double heartbeat_s = 8;       // a rank that is silent for longer is lost; 0: silence is no failure
  double stall_warning_s = 60;  // a warning names a rank that lives but makes no progress for longer; 0: never
  double connect_s = 10;        // time in which all ranks must connect
  std::string interface = {};   // network interface of rank 0 to connect to; empty: all are tried
};

/// The reason why the job ends.
struct Loss {
  int rank = 0;
  std::string host;
  std::string why;         // "was lost: its connection closed", "has been silent for 8 s", or the error of a rank that reported one
  std::vector<int> ranks;  // all ranks that reported this error, ascending; empty: the rank was lost
};

/// Describes a loss: `rank 2 of 4 on node-b was lost: its connection closed; rank 0 waited for step 12, gradient of conv1.weight`. For errors: `rank 2 of 4 on
/// node-b: ERROR`, `ranks 1, 2 of 4: ERROR`, or ERROR alone if all ranks reported it.
/// @param survivor  the rank that reports the loss
/// @param waiting   what that rank waited for; may be empty
std::string describe(const Loss& loss, int ranks, int survivor, const std::string& waiting);

/// One rank's failure detector, with a thread of its own.
class FailureDetector {
 public:
  /// Called in the detector's thread. They must return soon or end the process, must not throw, and must not destroy the detector.
  struct Callbacks {
    std::function<void(const Loss&)> on_loss = {};  // once, on every rank except those that reported the error themselves; of a rank that was given up: its own
    std::function<void(const std::string&)> on_warning = {};              // on rank 0
    std::function<void(int rank, const std::string& text)> on_note = {};  // on rank 0: what another rank passed to `note`
    std::function<void(const Loss&)> on_departure = {};                   // on rank 0, for each rank that is lost or failed and is not needed: see `need_only`
    std::function<std::string()> detail = {};  // detail of what this rank waits for, such as "the gradient of fc.weight"; may be empty
  };

  /// Starts listening on rank 0. Ranks are watched only after `connect`.
  /// @param hosts  [rank]
  /// @throws UsageError if rank 0 has no such interface, lists the interfaces  @throws CommError if it cannot listen
  FailureDetector(int rank, std::vector<std::string> hosts, WatchOptions options, Callbacks callbacks);
  /// Ends at once. Without `goodbye` the others take this rank for lost.
  ~FailureDetector();
  FailureDetector(const FailureDetector&) = delete;
  FailureDetector& operator=(const FailureDetector&) = delete;

  /// Returns what the other ranks need to connect to rank 0, in one line: the job's token, addresses, ports. Empty on other ranks.
  std::string address() const;
  /// Connects; returns on rank 0 when all ranks are connected, on another rank when it is. A loss before that is thrown here instead of calling `on_loss`.
  /// @param announced  `address` of rank 0
  /// @throws CommError naming ranks, hosts and addresses if they do not connect within `connect_s`
  void connect(const std::string& announced);

  /// On rank 0: from here on the loss or the error of a rank of this number or a larger one does not end the job.
  void need_only(int ranks);

  /// Reports that this rank made progress. Cheap, from any thread.
  void progress();
  /// Sets what this rank waits for from now on: "step 12, gradient of layer4.1.conv2.weight". From any thread.
  void waiting_for(std::string what);
  std::string waiting_for() const;
  /// Sends a text of at most 16 KiB to rank 0; nothing before the ranks are connected or after the job's end. From any thread; nobody waits for it.
  void note(std::string text);

  /// Reports that this rank failed and is about to end. Equal errors of several ranks become one loss. Returns once the others know, after 0.3 s at most.
  /// @return the loss that ends the job, which may be another rank's; none if rank 0 did not answer
  std::optional<Loss> report(const std::string& error);
  /// Ends in order, so that this rank's connection may close. Returns when rank 0 knows, and on rank 0 when all ranks have called it; after 2 s at most, in
  /// which case the others know that rank 0 has gone and are no longer watched. No callback is called after it has returned.
  void goodbye();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gemel::parallel
