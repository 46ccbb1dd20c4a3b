// gemel launch --check in the ranks: devices, builds, data, checkpoint folder.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include "datasets/pictures/picture_dataset.h"
#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/numbers.h"
#include "frontends/cli/job/job.h"
#include "frontends/cli/launch/launch_check.h"
#include "frontends/cli/options/train_identity.h"
#include "frontends/train/checkpoint/checkpoint.h"
#include "parallel/watch/addresses.h"

namespace gemel::cli {
namespace {

struct RankFinding {
  bool fits = true;
  std::string text;
  bool operator==(const RankFinding&) const = default;
};

RankFinding found_by(const std::function<std::string()>& look) {
  try {
    return {true, look()};
  } catch (const std::exception& e) {
    return {false, worded(e)};
  }
}

/// What ranks must have in common, or each for itself.
enum class Wanted { same, any };

class RanksCheck {
 public:
  RanksCheck(const TrainOptions& options, Job& job) : options_(options), job_(job) {}

  bool run() {
    row("devices", Wanted::any, [this] {
      const auto device = opencl::Device::open(job_.share_of(options_.common.device));
      const opencl::DeviceProfile& p = device->profile();
      return fmt::format("{} ({}, {} unit{})", p.name, p.platform, p.compute_units, p.compute_units == 1 ? "" : "s");
    });
    row("builds", Wanted::same, [] {
      std::vector<std::string> words;
      for (const distributed::Setting& s : program_settings()) words.push_back(s.name + " " + s.value);
      return fmt::format("{}", fmt::join(words, ", "));
    });
    row("data", Wanted::same, [this] {
      const auto work = make_workload(options_.work);
      const datasets::Dataset& data = work->train_data();
      return fmt::format("{}, {} samples, the first and the last {}", data.name(), data.size(), first_and_last(data));
    });
    check_folder();
    return fits_;
  }

 private:
  const TrainOptions& options_;
  Job& job_;
  bool fits_ = true;

  /// [rank]. Collective: where one rank cannot look, all know it.
  std::vector<RankFinding> of_all(const RankFinding& mine) const {
    if (!job_.communication()) return {mine};
    std::vector<RankFinding> out;
    for (const std::string& text : distributed::texts_of_ranks(*job_.communication(), (mine.fits ? "+" : "-") + mine.text))
      out.push_back({text[0] == '+', text.substr(1)});
    return out;
  }

  void row(const char* what, Wanted wanted, const std::function<std::string()>& look) { conclude(what, wanted, of_all(found_by(look))); }

  void conclude(const char* what, Wanted wanted, const std::vector<RankFinding>& all) {
    const bool each = std::ranges::all_of(all, &RankFinding::fits);
    const bool fits = each && (wanted == Wanted::any || std::ranges::all_of(all, [&](const RankFinding& f) { return f == all.front(); }));
    if (job_.rank() == 0) print_row(what, fits, text_of(all, !each));
    fits_ = fits_ && fits;
  }

  /// Those that found the same share a place: "ranks 0, 2: ...; rank 1: ...".
  std::string text_of(const std::vector<RankFinding>& all, bool failures_alone) const {
    std::vector<std::pair<RankFinding, std::vector<int>>> groups;
    for (int r = 0; r < std::ssize(all); ++r) {
      const auto same = std::ranges::find(groups, all[at(r)], [](const auto& group) { return group.first; });
      if (same == groups.end())
        groups.push_back({all[at(r)], {r}});
      else
        same->second.push_back(r);
    }
    if (groups.size() == 1) return groups.front().first.text;
    std::vector<std::string> parts;
    for (const auto& [finding, ranks] : groups) {
      if (failures_alone && finding.fits) continue;
      const std::string who = ranks.size() == 1 ? fmt::format("rank {} on {}", ranks.front(), job_.communication()->placement().hosts[at(ranks.front())])
                                                : fmt::format("ranks {}", fmt::join(ranks, ", "));
      parts.push_back(fmt::format("{}: {}", who, finding.text));
    }
    return fmt::format("{}", fmt::join(parts, "; "));
  }

  /// Whether it is one and the same: the other ranks look for a file that rank 0 puts there.
  void check_folder() {
    const std::filesystem::path& folder = options_.checkpoint_dir;
    constexpr const char* kWhat = "checkpoint folder";
    if (folder.empty()) return conclude(kWhat, Wanted::any, of_all({true, "none is given"}));
    std::filesystem::path written;
    const std::vector<RankFinding> made = of_all(found_by([&]() -> std::string {
      if (job_.rank() != 0) return "";
      train::prepare_checkpoints(folder);
      const std::string name = ".check-" + parallel::random_token();
      written = folder / name;
      std::ofstream(written).close();
      return name;
    }));
    if (!made.front().fits) return conclude(kWhat, Wanted::any, {made.front()});
    row(kWhat, Wanted::any, [&] {
      if (!is_there(folder / made.front().text)) throw DataError(fmt::format("{} is another folder than that of rank 0", folder.string()));
      return folder.string();
    });
    std::error_code gone;
    if (!written.empty()) std::filesystem::remove(written, gone);
  }
};

}  // namespace

int check_ranks(const TrainOptions& options) {
  return run_job(options.parallel, options.common.device, [&](Job& job) { return RanksCheck(options, job).run() ? 0 : kDoesNotFit; });
}

}  // namespace gemel::cli
