#include "frontends/cli/strategies/strategy.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "parallel/transport/mpi_communicator.h"

/// All styles, a line each, in the order of the help.
#define GEMEL_STYLES(STYLE) \
  STYLE(kDdp)               \
  STYLE(kHorovod)           \
  STYLE(kPipeline)          \
  STYLE(kParameterServer)   \
  STYLE(kMirrored)          \
  STYLE(kDataparallel)      \
  STYLE(kAlone)

namespace gemel::cli {

#define GEMEL_DECLARE(style) extern const Style style;
GEMEL_STYLES(GEMEL_DECLARE)
#undef GEMEL_DECLARE

std::span<const Style* const> styles() {
#define GEMEL_ADDRESS(style) &style,
  static constexpr const Style* kStyles[] = {GEMEL_STYLES(GEMEL_ADDRESS)};
#undef GEMEL_ADDRESS
  return kStyles;
}

const Style& style_option(const po::variables_map& values) {
  const auto& name = values["parallel"].as<std::string>();
  std::vector<std::string> accepted;
  for (const Style* style : styles()) {
    if (name == style->name) return *style;
    if (*style->name) accepted.push_back(style->name);
  }
  check_choice("--parallel", name, accepted);
  throw InternalError("parallel: a style was accepted that is in no table");
}

RanksAre Strategy::ranks_are() const {
  if (style_.in_processes && (!style_.in_threads || parallel::mpi_launch())) return RanksAre::processes;
  return style_.in_threads ? RanksAre::threads : RanksAre::one_process;
}

/// In an evaluation a rank may have no samples.
void Strategy::check(Purpose purpose, std::int64_t batch_size, int ranks) const {
  if (purpose != Purpose::evaluate) check_shards(batch_size, ranks);
}

void Strategy::check_shards(std::int64_t batch_size, int ranks) const {
  if (const int shards = copies(ranks); batch_size < shards)
    throw UsageError(fmt::format("--batch-size: {} samples are for {} {}; accepted: one a {} or more", batch_size, shards, sharer().many, sharer().one));
}

std::shared_ptr<const Strategy> Strategy::fitted(int, std::span<const std::int64_t>, const std::function<bool(std::int64_t)>&) const {
  return shared_from_this();
}

std::shared_ptr<const Strategy> Strategy::measured(Session&, Job&, train::Task&, const ModelUse&, std::optional<std::int64_t>) const {
  return shared_from_this();
}

std::int64_t Strategy::micro_batches(std::int64_t, int, std::int64_t accumulate) const { return accumulate; }

std::shared_ptr<const Strategy> alone() { return kAlone.make(kAlone, {}, {}); }

void refuse_given(const po::variables_map& values, std::span<const char* const> names, const std::string& how) {
  for (const char* name : names)
    if (is_given(values, name)) throw UsageError(fmt::format("--{}: it is given {}", name, how));
}

void refuse_top_k(const ParallelOptions& common, const Style& style) {
  if (common.reducer.compression.kind == parallel::CompressionOptions::Kind::top_k)
    throw UsageError(fmt::format("--compression: '{}' is given with --parallel {}; accepted: none, fp16, bf16", common.compression_text, style.name));
}

}  // namespace gemel::cli
