#include "frontends/cli/job/launch_messages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <system_error>
#include <utility>

#include "engine/base/error.h"
#include "frontends/cli/options/run_spec.h"
#include "parallel/watch/failure_detector.h"

namespace gemel::cli {
namespace {

void each_file(const Launched& launched, const std::function<void(const std::filesystem::path&)>& look) {
  if (launched.losses.empty()) return;
  const std::filesystem::path begin = launched.losses;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(begin.parent_path(), gone))
    if (entry.path().filename().string().starts_with(begin.filename().string())) look(entry.path());
}

}  // namespace

std::string LostRank::text() const {
  if (!rank) return fmt::format("{} {}", ranks == 1 ? "the rank" : fmt::format("a rank of {}", ranks), why);
  return parallel::describe({*rank, host, why, {}}, static_cast<int>(ranks), 0, "");
}

Json LostRank::json() const {
  Json out{{"ranks", ranks}, {"why", why}};
  if (rank) out.update({{"rank", *rank}, {"host", host}});
  return out;
}

LostRank LostRank::of(const Json& json) {
  LostRank out{.ranks = json.at("ranks").get<std::int64_t>(), .host = json.value("host", ""), .why = json.at("why").get<std::string>()};
  if (json.contains("rank")) out.rank = json["rank"].get<int>();
  return out;
}

Json ToldLoss::json() const {
  Json out = lost.json();
  out["told_by"] = by;
  return out;
}

ToldLoss ToldLoss::of(const Json& json) { return {json.at("told_by").get<int>(), LostRank::of(json)}; }

std::string Launched::text() const {
  Json out{{"checks", checks}, {"restart", restart}, {"survives", survives}, {"joins_streams", joins_streams}, {"losses", losses}};
  if (lost) out["lost"] = lost->json();
  return text_of(out);
}

bool Launched::is_rank() { return std::getenv(kVariable) != nullptr; }
int Launched::failed() { return is_rank() ? kToldFailure : 1; }

Launched Launched::here() {
  const char* text = std::getenv(kVariable);
  if (text == nullptr) return {};
  try {
    const Json json = Json::parse(text);
    Launched out{.checks = json.at("checks").get<bool>(),
                 .restart = json.at("restart").get<int>(),
                 .survives = json.at("survives").get<bool>(),
                 .joins_streams = json.at("joins_streams").get<bool>(),
                 .losses = json.at("losses").get<std::string>()};
    if (json.contains("lost")) out.lost = LostRank::of(json["lost"]);
    return out;
  } catch (const Json::exception&) {
    throw UsageError(fmt::format("{}: '{}' is not accepted; accepted: what gemel launch sets for its processes", kVariable, text));
  }
}

namespace {

constexpr std::string_view kBegins = "ranks may be lost", kEnds = "the job ends with status ", kWithout = "the job goes on without rank ",
                           kLosesRank0 = "rank 0 is lost ";

void tell_launcher(const std::string& what) {
  const std::string text = fmt::format("{}{}\n", kLauncherLine, what);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

void tell_begin() { tell_launcher(std::string(kBegins)); }
void tell_end(int status) { tell_launcher(fmt::format("{}{}", kEnds, status)); }
void tell_gone_on_without(int rank) { tell_launcher(fmt::format("{}{}", kWithout, rank)); }
void tell_loss_of_rank_0(int rank, const LostRank& rank_0) { tell_launcher(std::string(kLosesRank0) + text_of(ToldLoss{rank, rank_0}.json())); }

namespace {

/// @return what follows
std::optional<std::string_view> behind(std::string_view begin, std::string_view line) {
  return line.starts_with(begin) ? std::optional(line.substr(begin.size())) : std::nullopt;
}

std::optional<int> number(std::string_view text) {
  int out = 0;
  return std::from_chars(text.data(), text.data() + text.size(), out).ec == std::errc() ? std::optional(out) : std::nullopt;
}

std::optional<ToldLoss> told_loss(std::string_view text) {
  try {
    return ToldLoss::of(Json::parse(text));
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::string given_up_text(int rank, std::int64_t ranks) { return fmt::format("rank 0 has given up rank {} of {}, which ends", rank, ranks); }

LauncherLine LauncherLine::of(std::string_view line) {
  const auto told = behind(kLauncherLine, line);
  if (!told) return {};
  if (told == kBegins) return {.begins = true};
  if (const auto status = behind(kEnds, *told)) return {.status = number(*status).value_or(1)};
  if (const auto rank = behind(kWithout, *told)) return {.gone_on_without = number(*rank)};
  if (const auto loss = behind(kLosesRank0, *told)) return {.loss_of_rank_0 = told_loss(*loss)};
  return {};
}

/// By one short write, and not by way of another file: mpirun may end this process a second after the loss.
void tell_loss(const Launched& launched, int rank, const LostRank& lost) {
  if (launched.losses.empty()) return;
  const std::string text = text_of(ToldLoss{rank, lost}.json());
  const int file = ::open(fmt::format("{}-{}", launched.losses, rank).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return;
  [[maybe_unused]] const auto written = ::write(file, text.data(), text.size());
  ::close(file);
}

std::vector<ToldLoss> told_losses(const Launched& launched) {
  std::vector<std::pair<std::filesystem::file_time_type, ToldLoss>> found;
  each_file(launched, [&](const std::filesystem::path& path) {
    std::ifstream in(path);
    std::error_code gone;
    try {
      const Json line = Json::parse(std::string(std::istreambuf_iterator<char>(in), {}));
      found.push_back({std::filesystem::last_write_time(path, gone), ToldLoss::of(line)});
    } catch (const Json::exception&) {
      // Its writer is at it, or was ended.
    }
  });
  std::ranges::sort(found, {}, [](const auto& one) { return std::pair(one.first, one.second.by); });
  std::vector<ToldLoss> out;
  for (auto& [time, told] : found) out.push_back(std::move(told));
  return out;
}

void forget_losses(const Launched& launched) {
  each_file(launched, [](const std::filesystem::path& path) {
    std::error_code gone;
    std::filesystem::remove(path, gone);
  });
}

}  // namespace gemel::cli
