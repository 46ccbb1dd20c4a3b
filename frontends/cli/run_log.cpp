#include "frontends/cli/run_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "engine/base/error.h"
#include "engine/base/file.h"

namespace gemel::cli {

RunLog::RunLog(const std::string& folder) : folder_(folder) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) throw DataError(fmt::format("log: cannot make the folder {}: {}", folder, error.message()));
  const auto path = folder_ / "run.jsonl";
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) throw DataError(fmt::format("log: cannot open {}: {}", path.string(), system_message(errno)));
  tensorboard_ = std::make_unique<TensorBoardWriter>(folder_);
}

RunLog::~RunLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RunLog::event(const nlohmann::ordered_json& line) {
  if (!active()) return;
  // One write a line: a reader, or a crash, never sees half of two lines mixed.
  FileWriter(descriptor_, folder_ / "run.jsonl").write(line.dump() + "\n");
}

void RunLog::scalar(const char* tag, double value, std::int64_t step) {
  if (tensorboard_) tensorboard_->scalar(tag, static_cast<float>(value), step);
}

void RunLog::summarise(const nlohmann::ordered_json& summary) {
  if (!active()) return;
  write_file_atomically(folder_ / "summary.json", [&](FileWriter& out) { out.write(summary.dump(2) + "\n"); });
}

}  // namespace gemel::cli
