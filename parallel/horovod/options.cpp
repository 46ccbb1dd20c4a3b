#include "parallel/horovod/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "engine/base/error.h"

namespace gemel::parallel::horovod {
namespace {

constexpr std::string_view kPrefix = "HOROVOD_";
constexpr std::array<std::string_view, 12> kRead{
    "FUSION_THRESHOLD",     "CYCLE_TIME", "CACHE_CAPACITY", "STALL_CHECK_TIME_SECONDS", "STALL_CHECK_DISABLE",      "STALL_SHUTDOWN_TIME_SECONDS", "TIMELINE",
    "TIMELINE_MARK_CYCLES", "AUTOTUNE",   "AUTOTUNE_LOG",   "AUTOTUNE_WARMUP_SAMPLES",  "AUTOTUNE_STEPS_PER_SAMPLE"};

class Variables {
 public:
  explicit Variables(const std::function<const char*(const char*)>& get) : get_(get) {}

  std::string text(const std::string& name) const {
    const char* value = get_((std::string(kPrefix) + name).c_str());
    return value ? value : "";
  }
  template <class Number>
  void read(const std::string& name, Number& into, Number least, Number most) const {
    const std::string value = text(name);
    if (value.empty()) return;
    Number number{};
    const char* const end = value.data() + value.size();
    const auto parsed = std::from_chars(value.data(), end, number);
    if (parsed.ec != std::errc() || parsed.ptr != end || !(number >= least && number <= most))
      throw UsageError(fmt::format("{}{}: '{}'; accepted: a number from {} to {}", kPrefix, name, value, least, most));
    into = number;
  }
  bool flag(const std::string& name) const {
    const std::string value = text(name);
    if (value.empty() || value == "0" || value == "1") return value == "1";
    throw UsageError(fmt::format("{}{}: '{}'; accepted: 0, 1", kPrefix, name, value));
  }

 private:
  const std::function<const char*(const char*)>& get_;
};

/// What would do nothing, as another variable has not switched it on.
void refuse_dead_values(const Variables& variables, const Options& o) {
  const auto refuse = [](const char* name, const char* given, const char* accepted) {
    throw UsageError(fmt::format("{}{}: it is given {}; accepted: {}", kPrefix, name, given, accepted));
  };
  for (const char* name : {"AUTOTUNE_LOG", "AUTOTUNE_WARMUP_SAMPLES", "AUTOTUNE_STEPS_PER_SAMPLE"})
    if (!o.tunes && !variables.text(name).empty()) refuse(name, "without HOROVOD_AUTOTUNE", "HOROVOD_AUTOTUNE=1 with it");
  if (o.marks_cycles && o.timeline.empty()) refuse("TIMELINE_MARK_CYCLES", "without HOROVOD_TIMELINE", "a file of HOROVOD_TIMELINE with it");
  if (o.stall_shutdown_s > 0 && o.stall_warning_s == 0)
    refuse("STALL_SHUTDOWN_TIME_SECONDS", "where stalls are not looked for", "a HOROVOD_STALL_CHECK_TIME_SECONDS over 0, and no HOROVOD_STALL_CHECK_DISABLE=1");
}

}  // namespace

Options options_from(const std::function<const char*(const char*)>& variable) {
  const Variables variables(variable);
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  constexpr double kDay = 86'400;
  Options o;
  variables.read("FUSION_THRESHOLD", o.fusion_bytes, std::int64_t{0}, kMost);
  variables.read("CYCLE_TIME", o.cycle_ms, 0.0, 1e6);
  std::int64_t capacity = static_cast<std::int64_t>(o.cache_capacity);
  variables.read("CACHE_CAPACITY", capacity, std::int64_t{0}, std::int64_t{1} << 20);
  o.cache_capacity = static_cast<std::size_t>(capacity);
  variables.read("STALL_CHECK_TIME_SECONDS", o.stall_warning_s, 0.0, kDay);
  variables.read("STALL_SHUTDOWN_TIME_SECONDS", o.stall_shutdown_s, 0.0, kDay);
  if (variables.flag("STALL_CHECK_DISABLE")) o.stall_warning_s = 0;
  o.timeline = variables.text("TIMELINE");
  o.marks_cycles = variables.flag("TIMELINE_MARK_CYCLES");
  o.tunes = variables.flag("AUTOTUNE");
  o.tuning_log = variables.text("AUTOTUNE_LOG");
  variables.read("AUTOTUNE_WARMUP_SAMPLES", o.tuning_warmup_samples, std::int64_t{0}, std::int64_t{1000});
  variables.read("AUTOTUNE_STEPS_PER_SAMPLE", o.tuning_steps, std::int64_t{1}, std::int64_t{100'000});
  refuse_dead_values(variables, o);
  return o;
}

Options options_from_environment() {
  return options_from([](const char* name) -> const char* { return std::getenv(name); });
}

std::vector<std::string> unread_variables() {
  std::vector<std::string> out;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if (name.starts_with(kPrefix) && std::ranges::find(kRead, name.substr(kPrefix.size())) == kRead.end()) out.emplace_back(name);
  }
  std::ranges::sort(out);
  return out;
}

}  // namespace gemel::parallel::horovod
