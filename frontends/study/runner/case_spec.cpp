#include "frontends/study/runner/case_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "frontends/study/runner/child_process.h"
#include "frontends/study/runner/program_output.h"

namespace gemel::study {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kData = "{data}/";
constexpr double kCheckTimeout = 60;  // seconds
constexpr int kWrongUsage = 2;        // status of a program that refuses its options

bool is_of_data(const Json& value) { return value.is_string() && value.get_ref<const std::string&>().starts_with(kData); }

void check_keys_of_runner(const Case& c, const Study& study) {
  for (const char* key : {kCores, kBusyCores})
    if (const Json cores = c.spec.value(key, Json(0)); !cores.is_number_integer() || cores < 0)
      c.refuse(study, key, fmt::format("{} is {}; accepted: a whole number, 0 for {}", key, cores.dump(), key == kCores ? "all" : "none"));
  if (const Json samples = c.spec.value(kEpochSamples, Json(1)); !samples.is_number() || samples <= 0)
    c.refuse(study, kEpochSamples, fmt::format("{} is {}; accepted: a number above 0", kEpochSamples, samples.dump()));
}

/// Where a line has an option; npos: nowhere. Its name may begin another's.
std::size_t place_of(const std::string& option, std::string_view line) {
  const auto is_of_name = [](unsigned char c) { return std::isalnum(c) || c == '-'; };
  std::size_t at = line.find(option);
  while (at != line.npos && at + option.size() < line.size() && is_of_name(static_cast<unsigned char>(line[at + option.size()])))
    at = line.find(option, at + 1);
  return at;
}

/// What a command says of a spec that it does not take.
struct Refusal {
  std::string key;  // of the spec that it names first; empty: none
  std::string why;  // with that key as the spec has it, not as an option
};
Refusal refusal_in(std::string_view line, const Json& spec) {
  constexpr std::string_view kProgram = "gemel: ", kSpec = "spec: ", kDashes = "--";
  if (line.starts_with(kProgram)) line.remove_prefix(kProgram.size());
  const bool is_of_spec = line.starts_with(kSpec);
  if (is_of_spec) line.remove_prefix(kSpec.size());
  Refusal out;
  std::size_t first = line.npos;
  for (const auto& [key, value] : spec.items()) {
    const bool begins = is_of_spec && (line.starts_with(key + ":") || line.starts_with("key '" + key + "'"));
    const std::size_t place = begins ? 0 : place_of(std::string(kDashes) + key, line);
    if (place >= first) continue;
    first = place;
    out.key = key;
  }
  if (first == 0 && line.starts_with(kDashes)) line.remove_prefix(kDashes.size());
  out.why = line;
  return out;
}

}  // namespace

Json with_data(Json spec, const Study& study, const StudyOptions& options, std::string& missing) {
  for (auto& [key, value] : spec.items()) {
    if (!is_of_data(value)) continue;
    const std::string rest = value.get_ref<const std::string&>().substr(kData.size()), name = rest.substr(0, rest.find('/'));
    const fs::path path = options.data / rest;
    if (!is_there(path)) {
      const auto source = std::ranges::find(study.data, name, &DataSource::name);
      missing = fmt::format("{} is not there{}; accepted: --data with a folder that has it", path.string(),
                            source == study.data.end() ? "" : fmt::format(": {}", source->from));
    }
    value = path.string();
  }
  return spec;
}

Json spec_of_run(const Case& c) {
  Json out = c.spec;
  for (const char* key : {"peer", "mode"}) out.erase(key);
  for (const char* key : kOfRunner) out.erase(key);
  if (c.is_of_peer()) out["frontend"] = "eager";  // it has none
  return out;
}

std::vector<std::string> run_words(const Json& spec, const std::string& given) {
  std::vector<std::string> out = spec.contains("np") ? std::vector<std::string>{"launch"} : command_words(spec);
  out.insert(out.end(), {"--spec", given});
  return out;
}

Json check(const Case& c, const Study& study, const StudyOptions& options) {
  check_keys_of_runner(c, study);
  const fs::path folder = options.folder / kLastRun;
  fs::create_directories(folder);
  std::string missing;
  const Json spec = with_data(spec_of_run(c), study, options, missing);
  std::vector<std::string> words{options.program.string()};
  std::ranges::copy(run_words(spec, spec.dump()), std::back_inserter(words));
  words.emplace_back("--print-spec");
  const ChildResult ended = run({.words = words, .output = folder / "stdout", .errors = folder / "stderr", .timeout_s = kCheckTimeout, .tick = [&](auto...) {
                                   options.stop_if_interrupted();
                                 }});
  if (ended.timed_out) c.refuse(study, "", fmt::format("its options were not checked within {:.0f} s", kCheckTimeout));
  const std::string said = last_line(text_of(folder / "stderr"));
  if (ended.status == kWrongUsage) {
    const Refusal refusal = refusal_in(said, c.spec);
    if (!missing.empty() && !refusal.key.empty() && is_of_data(c.spec.at(refusal.key))) throw DataError(missing);
    c.refuse(study, refusal.key, refusal.why);
  }
  if (ended.status != 0) throw DataError(said.empty() ? fmt::format("its options are not known: the check ended with status {}", ended.status) : said);
  const Json whole = Json::parse(text_of(folder / "stdout"), nullptr, false);
  for (const auto& [key, value] : whole.items())
    if (value.is_array() && value.size() > 1 && key != "env" && key != "variant")
      c.refuse(study, key, fmt::format("{} is {}; accepted: one value, in the spec or on an axis", key, value.dump()));
  return whole;
}

void check_data(const Study& study, const StudyOptions& options) {
  std::string first;
  for (const Case& c : study.cases) {
    std::string missing;
    with_data(c.spec, study, options, missing);
    if (missing.empty()) return;
    if (first.empty()) first = missing;
  }
  throw DataError(fmt::format("study: {}", first));
}

}  // namespace gemel::study
