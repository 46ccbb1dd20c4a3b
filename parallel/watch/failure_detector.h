// The ranks of a job watch each other over sockets of their own: a rank whose process died, that fell silent or that failed is named on every
// other one. All are connected to rank 0, which tells the others.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gemel::parallel {

/// The same on every rank.
struct WatchOptions {
  double heartbeat_s = 8;       // a rank silent for so long is lost; 0: silence is never a failure
  double stall_warning_s = 60;  // a rank that lives but makes no progress for so long is warned of; 0: never
  double connect_s = 10;        // all ranks are there by then
  std::string interface = {};   // the network interface of rank 0 that the others use; empty: all are tried
};

/// Why the job is over.
struct Loss {
  int rank = 0;
  std::string host;
  std::string why;         // "was lost: its connection closed", "has been silent for 8 s", or the error of a rank that reported one
  std::vector<int> ranks;  // all that reported this error, ascending; empty: the rank was lost
};

/// `rank 2 of 4 on node-b was lost: its connection closed; rank 0 waited for step 12, gradient of conv1.weight`; of errors:
/// `rank 2 of 4 on node-b: ERROR`, `ranks 1, 2 of 4: ERROR`, and ERROR alone where all ranks reported it.
/// @param survivor  the rank that says so
/// @param waiting   what it waited for; may be empty
std::string describe(const Loss& loss, int ranks, int survivor, const std::string& waiting);

/// One rank's end, with a thread of its own.
class FailureWatch {
 public:
  /// Called in the watch thread; they return soon (or end the process), throw nothing and do not destroy the watch.
  struct Callbacks {
    std::function<void(const Loss&)> on_loss = {};            // once, on every rank but those that reported the loss themselves
    std::function<void(const std::string&)> on_warning = {};  // on rank 0
    std::function<std::string()> detail = {};                 // of what this rank waits for; may be empty: "the gradient of fc.weight"
  };

  /// Rank 0 begins to listen. Nothing is watched before `connect`.
  /// @param hosts  [rank]
  /// @throws UsageError where rank 0 has no such interface: names those there are  @throws CommError where it cannot listen
  FailureWatch(int rank, std::vector<std::string> hosts, WatchOptions options, Callbacks callbacks);
  /// Ends at once. Without `goodbye` the others take this rank for lost.
  ~FailureWatch();
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

  /// Of rank 0: what the other ranks connect to, one line: a token of the job, addresses, ports. Empty on the others.
  std::string address() const;
  /// Returns on rank 0 when all are there, on another when it is. A loss before that is thrown here, and `on_loss` is not called.
  /// @param announced  rank 0's `address`
  /// @throws CommError naming ranks, hosts and addresses where they do not meet within `connect_s`
  void connect(const std::string& announced);

  /// This rank moved on. Cheap, from any thread.
  void progress();
  /// What this rank waits for from now on: "step 12, gradient of layer4.1.conv2.weight". From any thread.
  void waiting_for(std::string what);
  std::string waiting_for() const;

  /// This rank failed and is about to end: the others are told, and equal errors of several ranks become one loss. Returns once they know,
  /// 0.3 s later at most.
  /// @return the loss that ends the job, which may be another rank's; none where rank 0 did not answer
  std::optional<Loss> report(const std::string& error);
  /// The orderly end: this rank's connection may close now. Returns when rank 0 knows; on rank 0 when all have said so. 2 s later at most:
  /// the others then know that rank 0 has gone, and are no longer watched. No callback is called after it returned.
  void goodbye();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gemel::parallel
