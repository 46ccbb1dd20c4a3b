// gemel monitor: a page of runs as they go.
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "frontends/cli/command.h"
#include "frontends/cli/options/arguments.h"
#include "frontends/cli/system/console.h"
#include "frontends/monitor/export_page.h"
#include "frontends/monitor/http_server.h"
#include "frontends/monitor/page_files.h"
#include "frontends/monitor/run_index.h"
#include "opencl/program/program_cache.h"

namespace gemel::cli {
namespace {

namespace fs = std::filesystem;
using monitor::HttpServer;
using monitor::RunIndex;

constexpr int kUsualPort = 6336;
constexpr std::chrono::milliseconds kLookEvery{500};
constexpr std::size_t kMostExport = 10'000'000;  // bytes

/// Signals that end the monitor. They are held back in all threads, and one waits for them. What was ignored at the start (nohup) stays so.
class EndSignals {
 public:
  EndSignals() {
    ::sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction now {};
      if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) ::sigaddset(&set_, signal);
    }
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~EndSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;
  void wait() const {
    int signal = 0;
    ::sigwait(&set_, &signal);
  }

 private:
  sigset_t set_{}, before_{};
};

/// Looks at the folder again and again, in a thread of its own.
class Watcher {
 public:
  explicit Watcher(RunIndex& index) : index_(index), thread_([this] { watch(); }) {}
  ~Watcher() {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  void watch() {
    for (;;) {
      try {
        index_.refresh([this] { return stops_.load(); });
      } catch (const std::exception& e) {
        say("gemel: {}\n", worded(e));
      }
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, kLookEvery, [this] { return stops_.load(); })) return;
    }
  }
  RunIndex& index_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> stops_ = false;
  std::thread thread_;
};

/// Says on standard error how far the first look has come, if it takes long.
class FirstLook {
 public:
  explicit FirstLook(const RunIndex& index) : index_(index), thread_([this] { tell(); }) {}
  ~FirstLook() {
    ends_ = true;
    thread_.join();
  }
  FirstLook(const FirstLook&) = delete;
  FirstLook& operator=(const FirstLook&) = delete;

 private:
  void tell() {
    constexpr int kEvery = 20;  // tenths of a second
    for (int i = 1; !ends_; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const auto now = index_.progress();
      if (now.of_files > 0 && now.files >= now.of_files) return;
      if (i % kEvery == 0 && now.of_files > 0) say("gemel: read {} of {} records, {} MB\n", now.files, now.of_files, now.bytes / 1'000'000);
    }
  }
  const RunIndex& index_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

void write_export(RunIndex& index, const fs::path& file) {
  check_can_write(file);
  {
    const FirstLook progress(index);
    index.refresh();
  }
  index.save();
  const auto page = monitor::exported_page(index, kMostExport);
  write_file_atomically(file, [&](FileWriter& out) { out.write(page.text); });
  say("gemel: {}: {} runs, {} bytes, at most {} points a curve{}\n", file.string(), page.runs, page.text.size(), page.points,
      page.left_out == 0 ? "" : fmt::format("; {} runs do not fit", page.left_out));
}

std::vector<std::string> names_of_machine(const std::string& host) {
  std::vector<std::string> out{host};
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) == 0) {
    out.emplace_back(name);
    out.push_back(out.back().substr(0, out.back().find('.')));
  }
  return out;
}

/// Where the index lies; nowhere if that is in the folder that is shown, where nothing is written.
std::optional<fs::path> index_folder(const fs::path& shown) {
  const auto cache = opencl::ProgramCache::default_folder();
  if (!cache) return std::nullopt;
  const fs::path index = *cache / "monitor";
  std::error_code error;  // of a path that cannot be: who uses it says so
  const fs::path inside = fs::weakly_canonical(fs::absolute(index, error), error).lexically_relative(fs::canonical(shown, error));
  if (inside.empty() || *inside.begin() == "..") return index;
  say("gemel: the cache folder {} is in {}, where nothing is written; the index is kept in memory\n", cache->string(), shown.string());
  return std::nullopt;
}

void serve(RunIndex& index, const std::string& host, std::uint16_t port) {
  const monitor::HostNames names(host, names_of_machine(host));
  HttpServer::Options options;
  options.address = host;
  options.port = port;
  HttpServer server(options, {.accepts_host = [&](std::string_view name) { return names.accept(name); },
                              .answer = [&](std::string_view target) { return monitor::answer(index, target); },
                              .version = [&] { return index.version(); }});
  const EndSignals signals;
  const bool has_colons = host.find(':') != host.npos;  // IPv6
  fmt::print("http://{}:{}/\n", has_colons ? "[" + host + "]" : host, server.port());
  std::fflush(stdout);
  if (!names.is_loopback_only()) say("gemel: whoever reaches this machine's port {} can read the runs in {}\n", server.port(), index.folder().string());
  std::thread serving([&] { server.run(); });
  {
    const Watcher watcher(index);
    const FirstLook progress(index);
    signals.wait();
  }
  server.stop();
  serving.join();
  index.save();
}

}  // namespace

int monitor(const Arguments& arguments) {
  po::options_description options("options");
  auto option = options.add_options();
  option("folder", po::value<std::string>(), "every run.jsonl in it and below is a run; no link is followed, nothing is written there");
  option("port", po::value<std::int64_t>()->default_value(kUsualPort), "to serve the page at; 0: any free one");
  option("host", po::value<std::string>()->default_value("127.0.0.1"), "address to serve it at: by default this machine's browsers alone reach it");
  option("export", po::value<std::string>()->default_value(""), "write the page with its curves to this file, of at most 10 MB, and end");
  po::positional_options_description positional;
  positional.add("folder", 1);
  const auto v = parse("monitor DIR", "Shows runs as they go on a page in the browser, whose address is the first line that it prints. Ctrl-C ends it.",
                       options, arguments, positional);
  if (!monitor::has_plotting_library())
    throw UsageError(
        "monitor: this build has no plotting library; accepted: one made where dygraphs 2 is installed (libjs-dygraphs of Debian and Ubuntu), or with "
        "-DDYGRAPHS_FOLDER=FOLDER that has its dygraph.min.js and dygraph.min.css");
  if (!v.count("folder")) throw UsageError("monitor: no folder is given; accepted: one with runs in it, as --log-dir of train makes them");
  const fs::path folder = v["folder"].as<std::string>();
  if (!is_folder(folder)) throw UsageError(fmt::format("monitor: '{}' is no folder; accepted: one with runs in it", folder.string()));
  const auto port = static_cast<std::uint16_t>(whole_number(v, "port", 0, 65535));
  RunIndex index({.folder = folder, .cache = index_folder(folder), .warn = [](const std::string& line) { say("gemel: {}\n", line); }});
  if (const auto file = v["export"].as<std::string>(); !file.empty())
    write_export(index, file);
  else
    serve(index, v["host"].as<std::string>(), port);
  return 0;
}

}  // namespace gemel::cli
