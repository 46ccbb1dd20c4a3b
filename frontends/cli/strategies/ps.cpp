// --parallel ps: ranks 0 to K-1 are parameter servers, the others workers, as TensorFlow's ParameterServerStrategy.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "engine/base/error.h"
#include "frontends/cli/strategies/whole_model.h"
#include "frontends/cli/system/console.h"
#include "frontends/distributed/parameter_server/parameter_server.h"
#include "frontends/distributed/parameter_server/server_worker.h"
#include "frontends/distributed/parameter_server/shard_server.h"

namespace gemel::cli {
namespace {

using distributed::ParameterServer;
using distributed::ParameterServerOptions;
using distributed::ServerWorker;
using distributed::ShardServer;

void add_ps_options(po::options_description& options, Purpose purpose) {
  if (purpose == Purpose::evaluate) return;  // it is refused there
  auto option = options.add_options();
  option("servers", po::value<std::int64_t>()->default_value(1), "ranks that are parameter servers, the first ones; the others are workers");
  option("staleness", po::value<std::string>()->default_value("4"),
         "of a gradient, at most so many updates behind its parameters; 0: synchronous, none: asynchronous without a bound");
  option("staleness-lr", po::value<std::string>()->default_value("divided"),
         "of a gradient that is n updates stale: divided, by n + 1, with which asynchronous training comes nearer to synchronous; or whole");
  option("backup", po::value<std::int64_t>()->default_value(0), "with --staleness 0: workers whose gradients a step does without, the last ones to come");
}

[[noreturn]] void refuse_without_updates(const char* style) {
  throw UsageError(fmt::format("--parallel {}: there are no updates for servers to make; accepted: with train and bench train; here ddp", style));
}

/// "1 server", "2 servers"
std::string count_of(std::int64_t n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

/// What a rank is: server 0, another server, or a worker.
class ServedModel : public WholeModel {
 public:
  ServedModel(Session& session, Job& job, train::Task& task, ModelUse use, ParameterServerOptions options)
      : WholeModel(session, task, std::move(use)), job_(job), options_(std::move(options)) {}
  ~ServedModel() override { job_.communicate_by({}); }

  void attach(std::unique_ptr<optim::Optimizer> optimizer) override {
    if (worker_) return worker_->attach(*optimizer, {.frontend = use_.frontend, .passes = use_.passes, .accumulate = use_.micro_batches});
    optimizer_ = std::move(optimizer);
    server_ ? server_->attach(*optimizer_) : other_->attach(*optimizer_);
  }
  optim::Optimizer& optimizer() override { return worker_ ? worker_->optimizer() : *optimizer_; }
  train::Ranks& ranks() override { return pick<train::Ranks>(); }
  train::Stepper& stepper() override { return pick<train::Stepper>(); }
  graph::ArenaUse arena() const override { return worker_ ? worker_->arena() : graph::ArenaUse{}; }
  datasets::BatchSource& batches(datasets::DataLoader& loader, Purpose purpose) override {
    if (!server_) return loader;
    return purpose == Purpose::train ? server_->steps_of(loader) : server_->evaluations_of(loader);
  }
  Help help() override {
    if (worker_) return [this](datasets::DataLoader& training, datasets::DataLoader* validation) { worker_->work(training, validation); };
    if (other_) return [this](datasets::DataLoader&, datasets::DataLoader*) { other_->serve(); };
    return {};
  }
  bool is_helped() const override { return true; }
  std::vector<nn::StateEntry> whole_state() override {
    if (!server_) return {};
    server_->gather();
    return nn::state_dict(task_.module());
  }
  Json about_rank() const override { return worker_ ? Json{{"role", "worker"}} : Json{{"role", "server"}, {"share", 0}}; }
  Json tell_ranks() override {
    const parallel::UpdateRule& rule = options_.rule;
    const std::string how = rule.synchronous() ? fmt::format("synchronous{}", rule.backup ? fmt::format(", {} of the workers in reserve", rule.backup) : "")
                            : rule.staleness   ? fmt::format("asynchronous, at most {} updates stale", *rule.staleness)
                                               : "asynchronous";
    say("{}: {}, {}; updates: {}\n", job_.strategy().name(), count_of(options_.servers, "server"), count_of(options_.workers, "worker"), how);
    return {{"servers", options_.servers}, {"workers", options_.workers}, {"updates", how}};
  }
  void end() override {
    if (server_) server_->end();
  }

 protected:
  void join() override {
    alarm_ = std::make_shared<parallel::ServerAlarm>();
    job_.communicate_by({.abort = [alarm = alarm_](const std::string& why) { alarm->abort(why); },
                         .lose = [alarm = alarm_](int rank, const std::string& why) { alarm->lose(rank, why); }});
    ParameterServerOptions options = options_;
    options.progress = [this](const std::string& waiting_for) { job_.progress(waiting_for); };
    options.begins = [this] { return use_.record && job_.need_only(options_.servers); };
    options.lost = [this](int rank, const std::string& why) {
      use_.record({{"event", "lost"}, {"rank", rank}, {"host", job_.communication()->placement().hosts[static_cast<std::size_t>(rank)]}, {"why", why}});
    };
    const distributed::ServerMeans means{*job_.communication(), alarm_};
    if (job_.rank() == 0)
      server_ = std::make_unique<ParameterServer>(session_, task_, use_.shard, means, options);
    else if (options_.is_server(job_.rank()))
      other_ = std::make_unique<ShardServer>(session_, task_, use_.shard, means, options);
    else
      worker_ = std::make_unique<ServerWorker>(session_, task_, use_.shard, means, options);
  }

 private:
  template <class Side>
  Side& pick() {
    if (server_) return *server_;
    if (other_) return *other_;
    return *worker_;
  }

  Job& job_;
  ParameterServerOptions options_;
  std::shared_ptr<parallel::ServerAlarm> alarm_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<ParameterServer> server_;
  std::unique_ptr<ShardServer> other_;
  std::unique_ptr<ServerWorker> worker_;
};

class ParameterServerStrategy : public Strategy {
 public:
  ParameterServerStrategy(const Style& style, int servers, const parallel::UpdateRule& rule, std::string interface)
      : Strategy(style), servers_(servers), rule_(rule), interface_(std::move(interface)) {}

  int copies(int ranks) const override {
    const int least = servers_ + rule_.backup + 1;
    if (ranks < least)
      throw UsageError(fmt::format("--parallel {}: {} for {}{}; accepted: {} ranks or more", name(), count_of(ranks, "rank"), count_of(servers_, "server"),
                                   rule_.backup ? fmt::format(", {} in reserve and another one", count_of(rule_.backup, "worker")) : " and a worker", least));
    return ranks - servers_ - rule_.backup;
  }
  int copy(int rank, int ranks) const override { return std::clamp(rank - servers_, 0, copies(ranks) - 1); }
  Sharer sharer() const override { return {"worker", "workers"}; }
  void check(Purpose purpose, std::int64_t batch_size, int ranks) const override {
    if (purpose != Purpose::train) refuse_without_updates(name());
    check_shards(batch_size, ranks);
  }
  std::int64_t steps_per_batch(int ranks) const override { return rule_.synchronous() ? 1 : copies(ranks); }
  std::string updates() const override {
    if (rule_.synchronous()) return "synchronous";
    return (rule_.staleness ? fmt::format("of each worker, at most {} updates stale", *rule_.staleness) : "of each worker") +
           (rule_.divides_rate ? ", the rate divided by one more" : "");
  }
  bool computes(int rank) const override { return rank >= servers_; }
  std::unique_ptr<RankModel> model(Session& session, Job& job, train::Task& task, ModelUse use) const override {
    return std::make_unique<ServedModel>(session, job, task, std::move(use),
                                         ParameterServerOptions{.servers = servers_, .workers = job.size() - servers_, .rule = rule_, .interface = interface_});
  }

 private:
  int servers_;
  parallel::UpdateRule rule_;
  std::string interface_;
};

/// "4", "none"
std::optional<std::int64_t> staleness_option(const std::string& text) {
  if (text == "none") return std::nullopt;
  std::int64_t bound = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bound);
  if (error != std::errc() || end != text.data() + text.size() || bound < 0 || bound > 1'000'000)
    throw UsageError(fmt::format("--staleness: '{}'; accepted: 0 for synchronous updates, 1..1000000 updates, or none", text));
  return bound;
}

std::shared_ptr<const Strategy> make_ps(const Style& style, const po::variables_map& v, const ParallelOptions& common) {
  if (!v.count("servers")) refuse_without_updates(style.name);
  const std::string with = fmt::format("with --parallel {}, ", style.name);
  refuse_given(v, std::array{"bucket-mb", "first-bucket-mb", "compression", "collective"},
               with + "whose workers send whole gradients to servers; accepted: with --parallel ddp");
  refuse_given(v, std::array{"sync-bn"}, with + "whose workers do not wait for each other within a step; accepted: --freeze-norm, or --parallel ddp");
  refuse_given(v, std::array{"balance"}, with + "where who is faster takes more batches; accepted: without it");
  refuse_given(v, std::array{"no-sync"}, with + "where not all ranks compute; accepted: --parallel ddp");
  refuse_given(v, std::array{"sparse-embeddings"}, with + "where gradients are sent whole; accepted: without it, or --parallel ddp");
  refuse_given(v, std::array{"detect-anomaly", "profile"}, with + "where workers may be lost before they tell what they saw; accepted: --parallel ddp");
  const auto stale_rate = v["staleness-lr"].as<std::string>();
  check_choice("--staleness-lr", stale_rate, {"divided", "whole"});
  const parallel::UpdateRule rule{staleness_option(v["staleness"].as<std::string>()), static_cast<int>(whole_number(v, "backup", 0, 1e4)),
                                  stale_rate == "divided"};
  if (rule.synchronous() && is_given(v, "staleness-lr"))
    throw UsageError("--staleness-lr: it is given with --staleness 0, where no gradient is stale; accepted: with --staleness 1 or more, or none");
  if (rule.backup > 0 && !rule.synchronous())
    throw UsageError(fmt::format("--backup: {} workers in reserve are given with --staleness {}, where no step waits for all; accepted: with --staleness 0",
                                 rule.backup, v["staleness"].as<std::string>()));
  return std::make_shared<ParameterServerStrategy>(style, static_cast<int>(whole_number(v, "servers", 1, 1e4)), rule, common.watch.interface);
}

}  // namespace

extern const Style kParameterServer{
    .name = "ps",
    .about = "the first processes are parameter servers, which make the updates; the others train parts of each batch, and may be lost",
    .in_processes = true,
    .outlives_ranks = true,
    .add_options = add_ps_options,
    .make = make_ps,
};

}  // namespace gemel::cli
