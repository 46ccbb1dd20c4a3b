#include "frontends/cli/options/train_identity.h"

#include <fmt/format.h>

#include <span>
#include <vector>

#include "engine/base/hash.h"

namespace gemel::cli {
namespace {

std::string number(double value) { return fmt::format("{}", value); }
const char* on_off(bool value) { return value ? "on" : "off"; }

const char* gemm_text(opencl::GemmChoice choice) {
  return choice == opencl::GemmChoice::clblast ? "clblast" : choice == opencl::GemmChoice::native ? "native" : "auto";
}

}  // namespace

std::string first_and_last(const datasets::Dataset& data) {
  const std::int64_t both[] = {0, data.size() - 1};
  std::uint64_t hash = 0;
  for (const datasets::HostTensor& t : data.tensors(both)) hash = hash_of(*t.bytes, hash);
  return fmt::format("{:016x}", hash);
}

train::RunIdentity identity_of(const TrainOptions& o, const Workload& work) {
  using train::Bearing;
  const optim::Settings optimizer = optim::with_defaults(o.optimizer_name, o.optimizer);
  train::RunIdentity out{{"model", o.model, Bearing::state}};
  for (const train::IdentityPart& part : work.identity()) out.push_back(part);
  const train::RunIdentity of_run{{train::kBatchSize, std::to_string(o.batch_size), Bearing::sample_order},
                                  {"shuffle", on_off(o.shuffle == datasets::Shuffle::on), Bearing::sample_order},
                                  {"augment", o.augment == datasets::Augment::standard ? "standard" : "none", Bearing::setting},
                                  {"optimizer", o.optimizer_name, Bearing::state},
                                  {"momentum", number(optimizer.momentum.value_or(0)), Bearing::setting},
                                  {"weight decay", number(*optimizer.weight_decay), Bearing::setting},
                                  {"dropout", o.dropout ? number(*o.dropout) : "the model's", Bearing::setting},
                                  {"sparse embeddings", on_off(o.sparse_embeddings), Bearing::setting},
                                  {"label smoothing", number(o.work.label_smoothing), Bearing::setting},
                                  {"frozen backbone", on_off(o.freeze_backbone), Bearing::setting},
                                  {"frozen normalisation", on_off(o.freeze_norm), Bearing::setting},
                                  {"normalised over",
                                   o.parallel.pipeline                              ? "a micro-batch"
                                   : o.parallel.sync_bn || o.parallel.style.empty() ? "the whole batch"
                                                                                    : "a rank's shard",
                                   Bearing::setting},
                                  {"compression", o.parallel.compression_text, Bearing::setting},
                                  {"graph passes", o.common.passes_text, Bearing::last_bits},
                                  {"denormals", to_string(o.common.device.denormals), Bearing::setting},
                                  {"GEMM provider", gemm_text(o.common.device.gemm), Bearing::last_bits}};
  out.insert(out.end(), of_run.begin(), of_run.end());
  return out;
}

}  // namespace gemel::cli
