#include "opencl/program/out_of_process_compilation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <system_error>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/hash.h"
#include "opencl/device/warn.h"
#include "opencl/pocl/driver_cache.h"
#include "opencl/pocl/fixpoint_check.h"
#include "opencl/program/build_lock.h"
#include "opencl/program/compiler_abort.h"

namespace gemel::opencl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNotes = "apart";  // a folder in the driver's

/// What a driver compiles once for a device: the program, the kernel, the size of its groups, and whether there are few of them.
std::string note_of(const std::string& key, const CompileRequest& r) {
  const Range met = r.kernel.empty() ? Range{} : as_driver_meets(r.range);
  const std::string text = fmt::format("{}\n{}\n{}\n{}\n{} {} {}", key, r.program.source, r.program.options, r.kernel, met.dimensions,
                                       fmt::join(met.local, " "), fmt::join(met.global, " "));
  const std::uint64_t first = hash_of(text);
  return fmt::format("{:016x}{:016x}", first, hash_of(text, first));
}

std::optional<std::string> read_note(const fs::path& path) {
  std::error_code none;
  if (!fs::is_regular_file(path, none)) return std::nullopt;
  try {
    return std::string(as_text(read_whole(path)));
  } catch (const DataError&) {
    return std::nullopt;
  }
}

void write_note(const fs::path& path, const std::string& text) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  try {
    write_file_atomically(path, [&](FileWriter& out) { out.write(text); });
  } catch (const DataError&) {
    // It is compiled apart again.
  }
}

}  // namespace

bool OutOfProcessCompiler::is_needed(cl_platform_id platform, const DeviceProfile& profile) {
  return profile.is_pocl() && checks_fixpoint(platform_text(platform, CL_PLATFORM_VERSION)) && !asks_no_fixpoint_of(platform);
}

bool OutOfProcessCompiler::is_asked_for() {
  const std::string text = from_environment("GEMEL_COMPILE");
  if (!text.empty() && text != "apart") throw UsageError(fmt::format("GEMEL_COMPILE: '{}' is unknown; accepted: apart", text));
  return !text.empty();
}

OutOfProcessCompiler::OutOfProcessCompiler(cl_platform_id platform, const DeviceProfile& profile)
    : device_{profile.platform, profile.name},
      key_(fmt::format("{}\n{}\n{}\n{}\n{}", profile.platform, platform_text(platform, CL_PLATFORM_VERSION), profile.name, profile.version, profile.driver)) {}

void OutOfProcessCompiler::compile(const CompileRequest& request) {
  const std::lock_guard lock(mutex_);
  const fs::path folder = DriverCache::of_process().folder();
  const std::string note = note_of(key_, request);
  auto known = refusals_.find(note);
  if (known == refusals_.end()) known = refusals_.emplace(note, refusal_of(request, folder, note)).first;
  if (known->second.empty()) return;
  throw CompilerAbort(fmt::format("{}{}: the driver's compiler ends its process over it: {}", request.program.title,
                                  request.kernel.empty() ? "" : ", kernel " + request.kernel, known->second));
}

std::string OutOfProcessCompiler::refusal_of(const CompileRequest& request, const fs::path& folder, const std::string& note) {
  const fs::path path = folder.empty() ? fs::path() : folder / kNotes / note;
  if (const auto noted = read_note(path)) return *noted;
  if (given_up_) return "";
  try {
    const std::optional<std::string> refusal = compiled(to_text(request), folder);
    if (refusal && !path.empty()) write_note(path, *refusal);
    return refusal.value_or("");
  } catch (const DeviceError& e) {
    given_up_ = true;
    warn(fmt::format("{}; kernels are compiled in this process, which the driver's compiler may end", e.what()));
    return "";
  }
}

std::optional<std::string> OutOfProcessCompiler::compiled(const std::string& request, const fs::path& folder) {
  constexpr int kTries = 2;
  for (int i = 0; i < kTries; ++i) {
    if (!process_ || process_->cache() != folder) process_ = std::make_unique<CompilerProcess>(device_, folder);
    const CompilerProcess::Answer answer = process_->ask(request);
    if (answer == CompilerProcess::Answer::compiled) return "";
    const auto ended = std::exchange(process_, nullptr);
    const auto crash = ended->crash();
    if (crash && answer == CompilerProcess::Answer::ended_over_it) return crash;
    const bool was_new = i > 0;  // so that nothing compiled before can have ended it
    if (was_new && answer == CompilerProcess::Answer::ended) {
      const std::string said = ended->last_words();
      throw DeviceError(fmt::format("gemel-compile ends before it compiles{}{}", said.empty() ? "" : ": ", said));
    }
  }
  return std::nullopt;  // killed each time
}

}  // namespace gemel::opencl
