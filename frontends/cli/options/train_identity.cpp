#include "frontends/cli/options/train_identity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <vector>

#include "engine/base/hash.h"
#include "frontends/cli/strategies/strategy.h"

namespace gemel::cli {
namespace {

using train::Bearing;

/// Options that a run is told apart by.
struct Part {
  const char *option, *name;
  Bearing bearing;
  const char* none = "none";       // where it has no value
  const char* before = "unknown";  // as of train::IdentityPart
};
constexpr Part kParts[] = {{"batch-size", train::kBatchSize, Bearing::sample_order},
                           {"shuffle", "shuffle", Bearing::sample_order},
                           {"augment", "augment", Bearing::setting},
                           {"optimizer", "optimizer", Bearing::state},
                           {"momentum", "momentum", Bearing::setting, "0"},
                           {"weight-decay", "weight decay", Bearing::setting},
                           {"dropout", "dropout", Bearing::setting, "the model's"},
                           {"sparse-embeddings", "sparse embeddings", Bearing::setting},
                           {"label-smoothing", "label smoothing", Bearing::setting},
                           {"freeze-backbone", "frozen backbone", Bearing::setting},
                           {"freeze-norm", "frozen normalisation", Bearing::setting},
                           {"compression", "compression", Bearing::setting},
                           {"graph-passes", "graph passes", Bearing::last_bits},
                           {"denormals", "denormals", Bearing::setting},
                           {"precision", "precision", Bearing::setting, "none", "float32"},
                           {"gemm", "GEMM provider", Bearing::last_bits},
                           {"variant", "variants", Bearing::last_bits},
                           {"lstm", "LSTM", Bearing::last_bits},
                           {"tuning", "tuning table", Bearing::none},  // what it says is another part (trainer_identity.cpp): "none" where it is off
                           {"memory-plan", "memory plan", Bearing::none},
                           {"recorded-launches", "recorded launches", Bearing::none}};

std::string value_of(const Json& value, const char* none) {
  if (value.is_null()) return none;
  if (value.is_boolean()) return value.get<bool>() ? "on" : "off";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) return value.empty() ? none : fmt::format("{}", fmt::join(value.get<std::vector<std::string>>(), ", "));
  return value.is_number_integer() ? fmt::format("{}", value.get<std::int64_t>()) : fmt::format("{}", value.get<double>());
}

}  // namespace

std::string first_and_last(const datasets::Dataset& data) {
  const std::int64_t both[] = {0, data.size() - 1};
  std::uint64_t hash = 0;
  for (const datasets::HostTensor& t : data.tensors(both)) hash = hash_of(*t.bytes, hash);
  return fmt::format("{:016x}", hash);
}

train::RunIdentity identity_of(const TrainOptions& o, const domains::Workload& work, int ranks) {
  train::RunIdentity out{{"model", o.model, Bearing::state}};
  for (const train::IdentityPart& part : work.identity()) out.push_back(part);
  for (const Part& part : kParts) out.push_back({part.name, value_of(o.spec.at(part.option), part.none), part.bearing, part.before});
  const Strategy& strategy = *o.parallel.strategy;
  if (const std::int64_t steps = strategy.steps_per_batch(ranks); steps > 1) {  // then a step's number says another place in the order of samples
    const auto batch = std::ranges::find(out, train::kBatchSize, &train::IdentityPart::name);
    batch->value = fmt::format("{} in {} steps", batch->value, steps);
    out.push_back({"updates", strategy.updates(), Bearing::setting});
  }
  out.push_back({train::kNormalisedOver, strategy.normalised_over(o.parallel.sync_bn), Bearing::setting});
  Json spec = o.spec;
  spec["resume"] = "";  // the same run, whether or not it went on from a checkpoint
  out.push_back({"spec", text_of(spec), Bearing::none});
  return out;
}

}  // namespace gemel::cli
