#include "frontends/train/run_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string_view>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/file.h"

namespace gemel::train {
namespace {

/// Paths may hold any bytes, JSON only UTF-8.
std::string text_of(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

nlohmann::ordered_json json_of(const DeviceFacts& f) {
  return {{"platform", f.platform}, {"name", f.name}, {"version", f.version}, {"driver", f.driver}, {"type", f.type},
          {"compute_units", f.compute_units}, {"global_bytes", f.global_bytes}, {"tuning", f.tuning}};
}

RunLog::RunLog(const std::string& folder, nlohmann::ordered_json about) : folder_(folder), about_(std::move(about)) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) throw DataError(fmt::format("log: cannot make the folder {}: {}", folder, error.message()));
  lock_.emplace(folder_, "log");
  mend();
  open();
  tensorboard_ = std::make_unique<TensorBoardWriter>(folder_);
}

void RunLog::open() {
  const auto path = file();
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) throw DataError(fmt::format("log: cannot open {}: {}", path.string(), system_message(errno)));
}

void RunLog::go_on_after(std::int64_t step, std::int64_t epochs) {
  std::error_code error;
  if (!active() || !std::filesystem::is_regular_file(file(), error)) return;
  // What other runs wrote, or this one where it ended well; all of what is gone on with; of that, what stays.
  std::string earlier, run, done;
  std::ifstream in(file(), std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    const auto is = [&](const char* name) { return event.is_object() && event.value("event", nlohmann::json()) == name; };
    const auto later = [&](const char* name, std::int64_t last) {
      return is(name) && event.contains(name) && event[name].is_number_integer() && event[name] > last;
    };
    const auto leave = [&] {
      earlier += std::exchange(run, {});
      done.clear();
    };
    if (is("start") && !event.contains("resumed_from")) leave();
    run += line + "\n";
    if (!later("step", step) && !later("epoch", epochs)) done += line + "\n";
    if (is("end") && event.value("status", nlohmann::json()) == "ok") leave();
  }
  if (in.bad()) throw DataError(fmt::format("log: cannot read {}: {}", file().string(), system_message(errno)));
  write_file_atomically(file(), [&](FileWriter& out) { out.write(earlier + done); });
  open();
}

RunLog::~RunLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RunLog::mend() {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file(), error)) return;
  const MappedFile mapped(file());
  const std::string_view text(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
  const std::size_t whole = text.rfind('\n') + 1;  // 0 where there is none
  if (whole != text.size() && ::truncate(file().c_str(), static_cast<off_t>(whole)) != 0)
    throw DataError(fmt::format("log: cannot mend {}: {}", file().string(), system_message(errno)));
}

void RunLog::begin() {
  if (running_++ == 0) begin_ = std::chrono::steady_clock::now();
}

void RunLog::start(Session& session, const std::string& model_name, std::int64_t parameters, const std::filesystem::path& resumed_from) {
  nlohmann::ordered_json line{{"event", "start"}};
  line.update(about_);
  line.update({{"version", GEMEL_VERSION}, {"device", json_of(facts_of(session))}, {"model", model_name},
               {"parameters", parameters}});
  if (!line.contains("ranks")) line["ranks"] = 1;
  if (!resumed_from.empty()) line["resumed_from"] = resumed_from.string();
  event(line);
}

void RunLog::end(const std::string& status) {
  if (--running_ == 0) event({{"event", "end"}, {"seconds", seconds()}, {"status", status}});
}

double RunLog::seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

void RunLog::event(const nlohmann::ordered_json& line) {
  if (!active()) return;
  // One write a line: a reader, or a crash, never sees half of two lines mixed.
  FileWriter(descriptor_, file()).write(text_of(line) + "\n");
}

void RunLog::scalar(const char* tag, double value, std::int64_t step) {
  if (tensorboard_) tensorboard_->scalar(tag, static_cast<float>(value), step);
}

void RunLog::summarise(const nlohmann::ordered_json& summary) {
  if (!active()) return;
  write_file_atomically(folder_ / "summary.json", [&](FileWriter& out) { out.write(text_of(summary, 2) + "\n"); });
}

}  // namespace gemel::train
