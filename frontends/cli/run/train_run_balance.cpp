// How a run of training shares its batches by the rates that ranks have (--balance auto).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "frontends/cli/run/train_run.h"
#include "frontends/cli/system/console.h"
#include "frontends/nn/layers/layers.h"

namespace gemel::cli {

/// Statistics of shards would change with the shares, and with them what the job computes.
void TrainRun::normalise_over_batch_where_shares_vary() {
  ParallelOptions& parallel = options_.parallel;
  if (!parallel.balances || parallel.sync_bn || options_.freeze_norm || options_.freeze_backbone) return;
  if (!nn::has_batch_statistics(*work_->model())) return;
  parallel.sync_bn = true;
  cli::say("balance: {} has batch statistics, which are taken over the whole batch (--sync-bn)\n", options_.model);
}

std::optional<distributed::Balancing> TrainRun::balancing() {
  if (!options_.parallel.balances) return std::nullopt;
  const std::int64_t batch = batch_samples(), micro_batch = batch / std::min(options_.accumulate, batch);
  const std::int64_t one_in_each = (batch + micro_batch - 1) / micro_batch;
  if (options_.parallel.sync_bn && one_in_each * job_.size() > batch)
    throw UsageError(
        fmt::format("--balance: batch statistics take a sample of each of {} ranks in each micro-batch of {}, which leaves none to share out by rate; "
                    "accepted: even, or another --batch-size or --accumulate",
                    job_.size(), micro_batch));
  return distributed::Balancing{.batch = batch,
                                .limits = {.least = options_.parallel.sync_bn ? one_in_each : 0, .of_trial = one_in_each},
                                .changed = [this](const parallel::LoadBalancer& balance) {
                                  loader_->share(balance.shares());
                                  tell_shares(balance);
                                }};
}

/// "balance: 43, 21 of 64 samples (120.1, 59.8 samples/s)"
void TrainRun::tell_shares(const parallel::LoadBalancer& balance) const {
  const std::vector<std::int64_t>& shares = balance.shares();
  std::vector<std::string> rates;
  double longest = 0;
  for (int r = 0; r < job_.size(); ++r) {
    const double seconds = balance.seconds_per_sample(r);
    rates.push_back(seconds > 0 ? fmt::format("{:.1f}", 1 / seconds) : "not measured");
    longest = std::max(longest, seconds * static_cast<double>(shares[static_cast<std::size_t>(r)]));
  }
  cli::say("balance: {} of {} samples ({} samples/s)\n", fmt::join(shares, ", "), std::accumulate(shares.begin(), shares.end(), std::int64_t{0}),
           fmt::join(rates, ", "));
  for (int r = 0; r < job_.size(); ++r)
    if (shares[static_cast<std::size_t>(r)] == 0)
      cli::say("balance: rank {} ({}) gets no samples: it takes {:.3f} s for one, and a step is {:.3f} s without it\n", r,
               job_.communication()->placement().hosts[static_cast<std::size_t>(r)], balance.seconds_per_sample(r), longest);
}

}  // namespace gemel::cli
