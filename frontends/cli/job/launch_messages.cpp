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

std::string Launched::text() const {
  Json out{{"checks", checks}, {"restart", restart}, {"survives", survives}, {"losses", losses}};
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
                 .losses = json.at("losses").get<std::string>()};
    if (json.contains("lost")) out.lost = LostRank::of(json["lost"]);
    return out;
  } catch (const Json::exception&) {
    throw UsageError(fmt::format("{}: '{}' is not accepted; accepted: what gemel launch sets for its processes", kVariable, text));
  }
}

namespace {

constexpr std::string_view kBegins = "ranks may be lost", kEnds = "the job ends with status ";

void tell_launcher(const std::string& what) {
  const std::string text = fmt::format("{}{}\n", kLauncherLine, what);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

void tell_begin() { tell_launcher(std::string(kBegins)); }
void tell_end(int status) { tell_launcher(fmt::format("{}{}", kEnds, status)); }

LauncherLine LauncherLine::of(std::string_view line) {
  if (!line.starts_with(kLauncherLine)) return {};
  line.remove_prefix(std::string_view(kLauncherLine).size());
  if (line == kBegins) return {.begins = true};
  if (!line.starts_with(kEnds)) return {};
  line.remove_prefix(kEnds.size());
  int status = 1;
  std::from_chars(line.data(), line.data() + line.size(), status);
  return {.status = status};
}

/// By one short write, and not by way of another file: mpirun may end this process a second after the loss.
void tell_loss(const Launched& launched, int rank, const LostRank& lost) {
  if (launched.losses.empty()) return;
  Json line = lost.json();
  line["told_by"] = rank;
  const std::string text = text_of(line);
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
      found.push_back({std::filesystem::last_write_time(path, gone), {line.at("told_by").get<int>(), LostRank::of(line)}});
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
