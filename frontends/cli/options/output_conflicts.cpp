#include "frontends/cli/options/output_conflicts.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "engine/base/error.h"
#include "frontends/cli/options/arguments.h"

namespace gemel::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 4> kOutputs{"save", "output", "profile", "json"};
constexpr std::array<const char*, 6> kInputs{"weights", "vocab", "config", "input", "data", "resume"};

/// Empty where it is not given, or is no text.
std::string text_of(const boost::program_options::variables_map& values, const char* option) {
  if (values.count(option) == 0) return "";
  const auto* text = boost::any_cast<std::string>(&values[option].value());
  return text ? *text : "";
}

fs::path whole(const fs::path& path) {
  std::error_code none;
  return fs::weakly_canonical(fs::absolute(path, none), none);
}

/// By whatever names.
bool is_same(const fs::path& a, const fs::path& b) {
  std::error_code none;
  return fs::equivalent(a, b, none) || whole(a) == whole(b);
}

bool lies_in(const fs::path& file, const fs::path& folder) { return !folder.empty() && whole(file).parent_path() == whole(folder); }

bool is_of_log(const fs::path& file) { return file.filename() == "run.jsonl" || file.filename() == "summary.json"; }
bool is_checkpoint(const fs::path& file) { return file.filename().string().starts_with("checkpoint-") && file.extension() == ".safetensors"; }
/// There, and of a kind that no command writes.
bool is_data(const fs::path& file) {
  std::error_code none;
  return fs::is_regular_file(file, none) && file.extension() != ".safetensors" && file.extension() != ".json";
}

[[noreturn]] void refuse(const char* option, const std::string& file, const char* other) {
  throw UsageError(fmt::format("--{}: '{}' is given for --{} too; accepted: another file", option, file, other));
}
[[noreturn]] void refuse_place(const char* option, const std::string& file, const char* folder) {
  throw UsageError(fmt::format("--{}: '{}' is a file of --{}; accepted: another file", option, file, folder));
}

}  // namespace

void check_outputs_apart(const boost::program_options::variables_map& values) {
  for (std::size_t i = 0; i < kOutputs.size(); ++i) {
    const std::string file = text_of(values, kOutputs[i]);
    if (file.empty()) continue;
    for (std::size_t k = 0; k < i; ++k)
      if (const std::string other = text_of(values, kOutputs[k]); !other.empty() && is_same(file, other)) refuse(kOutputs[i], file, kOutputs[k]);
    for (const char* input : kInputs) {
      if (kOutputs[i] == std::string_view("save") && input == std::string_view("weights")) continue;
      for (const std::string& used : split_at_commas(text_of(values, input)))
        if (!used.empty() && is_same(file, used)) refuse(kOutputs[i], file, input);
    }
    if (lies_in(file, text_of(values, "data")) && is_data(file)) refuse_place(kOutputs[i], file, "data");
    if (lies_in(file, text_of(values, "log-dir")) && is_of_log(file)) refuse_place(kOutputs[i], file, "log-dir");
    if (lies_in(file, text_of(values, "checkpoint-dir")) && is_checkpoint(file)) refuse_place(kOutputs[i], file, "checkpoint-dir");
  }
}

}  // namespace gemel::cli
