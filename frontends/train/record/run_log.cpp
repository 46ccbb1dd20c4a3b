#include "frontends/train/record/run_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string_view>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/files/descriptor.h"
#include "engine/base/files/file.h"

namespace gemel::train {
namespace {

/// Paths may hold any bytes, JSON only UTF-8.
std::string json_text(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

nlohmann::ordered_json json_of(const DeviceFacts& f) {
  return {{"platform", f.platform},
          {"name", f.name},
          {"version", f.version},
          {"driver", f.driver},
          {"type", f.type},
          {"compute_units", f.compute_units},
          {"global_bytes", f.global_bytes},
          {"tuning", f.tuning},
          {"denormals", f.denormals},
          {"precision", f.precision}};
}

void warn(const std::string& line) {
  const std::string text = line + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);  // a closed or full standard error takes the words and not the run
}

RunLog::RunLog(const std::string& folder, nlohmann::ordered_json about, Warn warn) : folder_(folder), about_(std::move(about)), warn_(std::move(warn)) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) throw DataError(fmt::format("log: cannot make the folder {}: {}", folder, error.message()));
  lock_.emplace(folder_, kLog);
  check_can_write(summary_file());
  mend();
  open();
  record([this] { tensorboard_ = std::make_unique<TensorBoardWriter>(folder_); });
}

void RunLog::open() { lines_.emplace(open_regular("log", file(), O_WRONLY | O_CREAT | O_APPEND), file()); }

/// Of a record that fails. Later ones are tried again: a disk may have room by then.
void RunLog::record(const std::function<void()>& write) {
  const std::lock_guard lock(mutex_);
  try {
    write();
  } catch (const DataError& e) {
    if (!std::exchange(has_warned_, true)) warn_(fmt::format("log: warning: {}; the run goes on, and its record lacks what does not fit", e.what()));
  }
}

void RunLog::go_on_after(std::int64_t step, std::int64_t epochs) {
  std::error_code error;
  if (!active() || !std::filesystem::is_regular_file(file(), error)) return;
  // What other runs wrote, or this one where it ended well; all of what is gone on with; of that, what stays.
  std::string earlier, run, done;
  nlohmann::ordered_json last_of_run;  // its last epoch's line
  std::ifstream in(file(), std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    auto event = nlohmann::ordered_json::parse(line, nullptr, false);
    const auto is = [&](const char* name) { return event.is_object() && event.value("event", nlohmann::ordered_json()) == name; };
    const auto later = [&](const char* name, std::int64_t last) {
      return is(name) && event.contains(name) && event[name].is_number_integer() && event[name] > last;
    };
    const auto leave = [&] {
      earlier += std::exchange(run, {});
      done.clear();
    };
    if (is("start") && !event.contains("resumed_from")) {
      leave();
      seconds_before_ = 0;
      last_epoch_ = last_of_run = nullptr;
    }
    run += line + "\n";
    const bool is_done = !later("step", step) && !later("epoch", epochs);
    if (is_done) done += line + "\n";
    if (is("end") && event.contains("seconds") && event["seconds"].is_number()) seconds_before_ += event["seconds"].get<double>();
    if (is("end") && event.value("status", nlohmann::ordered_json()) == "ok") {
      leave();
      last_epoch_ = last_of_run;  // all of it stays
    }
    if (!is("epoch")) continue;
    last_of_run = event;
    if (is_done) last_epoch_ = std::move(event);
  }
  if (step == 0) seconds_before_ = 0;  // nothing of them is gone on with
  if (in.bad()) throw DataError(fmt::format("log: cannot read {}: {}", file().string(), system_message(errno)));
  record([&] { write_file_atomically(file(), [&](FileWriter& out) { out.write(earlier + done); }); });
  open();
}

void RunLog::mend() {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file(), error)) return;
  const auto content = read_whole(file());
  const std::string_view text = as_text(content);
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
  line.update({{"version", GEMEL_VERSION}, {"device", json_of(facts_of(session))}, {"model", model_name}, {"parameters", parameters}});
  if (!line.contains("ranks")) line["ranks"] = 1;
  if (!resumed_from.empty()) line["resumed_from"] = resumed_from.string();
  event(line);
}

void RunLog::begin_steps(std::int64_t first) {
  if (tensorboard_) record([&] { tensorboard_->begin_at(first); });
}

void RunLog::end(const std::string& status) {
  if (--running_ == 0) event({{"event", "end"}, {"seconds", seconds() - seconds_before_}, {"status", status}});
}

double RunLog::seconds() const { return seconds_before_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

void RunLog::event(const nlohmann::ordered_json& line) {
  if (active()) record([&] { lines_->append(json_text(line) + "\n"); });
}

void RunLog::scalar(const char* tag, double value, std::int64_t step) {
  if (tensorboard_) record([&] { tensorboard_->scalar(tag, static_cast<float>(value), step); });
}

void RunLog::summarise(const nlohmann::ordered_json& summary) {
  if (!active()) return;
  record([&] { write_file_atomically(summary_file(), [&](FileWriter& out) { out.write(json_text(summary, 2) + "\n"); }); });
}

}  // namespace gemel::train
