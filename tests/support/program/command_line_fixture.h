// The gemel program run from outside, as users and scripts call it.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/program/command_line_words.h"
#include "tests/support/temporary_folder.h"

namespace gemel::testing {

using Json = nlohmann::json;

struct Outcome {
  int status = -1;  // 128 and the signal's number where one ended it
  std::string out, err;
};

inline Words lines_of(const std::string& text) {
  Words out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

/// The number behind the first such word; NaN where there is none.
inline double number_after(const std::string& text, const std::string& word) {
  const auto at = text.find(word);
  return at == std::string::npos ? std::nan("") : std::stod(text.substr(at + word.size()));
}

class CommandLine : public ::testing::Test {
 protected:
  std::filesystem::path folder() const { return folder_.path(); }
  std::string in_folder(const std::string& name) const { return (folder() / name).string(); }

  Words launcher_ = {};  // what starts it: mpirun

  /// Starts the program. @param prepare  runs in the new process before: limits, environment
  pid_t start(const Words& arguments, const std::function<void()>& prepare = {}) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    for (const auto& [name, descriptor] : {std::pair{"out", STDOUT_FILENO}, {"err", STDERR_FILENO}})
      ::dup2(::open(in_folder(name).c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644), descriptor);
    // Each driver that starts costs a run like these a third of its time; rusticl starts for the devices that this names.
    if (const char* platform = ::getenv("GEMEL_PLATFORM"); platform && std::string_view(platform) != "rusticl") ::setenv("RUSTICL_ENABLE", "", 1);
    for (const int signal : {SIGINT, SIGQUIT}) ::signal(signal, SIG_DFL);  // a shell without job control has what is started behind an & ignore them
    if (prepare) prepare();
    Words words = joined(joined(launcher_, {std::string(GEMEL_BINARY_DIR) + "/gemel"}), arguments);
    std::vector<char*> argv;
    for (std::string& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }

  Outcome finish(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(folder() / "out"), read_text(folder() / "err")};
  }

  Outcome run(const Words& arguments, const std::function<void()>& prepare = {}) { return finish(start(arguments, prepare)); }

  /// Kills a program without warning as soon as the moment has come.
  void kill_when(pid_t child, const std::function<bool()>& moment) {
    int status = 0;
    while (!moment()) {
      ASSERT_EQ(::waitpid(child, &status, WNOHANG), 0) << "it ended before: " << read_text(folder() / "err");
      std::this_thread::yield();
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended before: " << read_text(folder() / "err");
  }

  /// Steps of the checkpoints that lie in the folder c.
  std::set<int> checkpoints() const {
    std::set<int> out;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder() / "c", error)) {
      const std::string name = entry.path().filename().string();
      if (name.rfind("checkpoint-", 0) == 0) out.insert(std::stoi(name.substr(11)));
    }
    return out;
  }
  /// Kills a program once a checkpoint of the step or a later one is there: those before it go, and may never have been seen.
  void kill_after(int step, pid_t child) {
    kill_when(child, [&] {
      const std::set<int> there = checkpoints();
      return !there.empty() && *there.rbegin() >= step;
    });
  }

  /// A small training run; more arguments follow.
  Words training(const Words& more) const { return joined({"train", "--model", "lenet", "--batch-size", "8", "--limit", "40", "--dropout", "0"}, more); }

  std::vector<Json> all_events(const std::string& log) const {
    std::vector<Json> out;
    std::ifstream in(folder() / log / "run.jsonl");
    for (std::string line; std::getline(in, line);) out.push_back(Json::parse(line));
    return out;
  }
  /// Without lines of usage, which come by the clock.
  std::vector<Json> events(const std::string& log) const {
    std::vector<Json> out = all_events(log);
    std::erase_if(out, [](const Json& e) { return e["event"] == "usage"; });
    return out;
  }

  /// What the last epoch of a run came to; nothing where none ended.
  Json last_epoch(const std::string& log) const {
    Json out;
    for (const Json& e : events(log))
      if (e["event"] == "epoch") out = e;
    return out;
  }

  std::vector<double> losses(const std::string& log) const {
    std::vector<double> out;
    for (const Json& e : events(log))
      if (e["event"] == "step") out.push_back(e["loss"]);
    return out;
  }

  /// Of runs whose logs are "eager" and "graph". A graph's fused kernels may round in other places by float32's last place of 6e-8, which steps carry on and
  /// let grow: 1e-5 of the first five losses.
  void expect_first_losses_alike_in_both_front_ends(std::size_t steps) const {
    const auto eager = losses("eager"), graph = losses("graph");
    ASSERT_EQ(eager.size(), steps);
    ASSERT_EQ(graph.size(), steps);
    for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(graph[i], eager[i], 1e-5 * eager[i]) << "step " << i + 1;
  }

  /// What `gemel eval` printed of the weights that an epoch ended with: six digits are printed, and float32 sums over other batches differ in the seventh.
  static void expect_evaluated_as(const Json& epoch, const Outcome& eval, const Words& metrics) {
    for (const std::string& metric : metrics) EXPECT_NEAR(number_after(eval.out, metric + " "), epoch.at("val_" + metric).get<double>(), 2e-6) << eval.out;
  }

  /// Exit status, and one line on standard error that says why and holds the text. Before it stands only what tells how far it came.
  void expect_refused(const Words& arguments, int status, const std::string& text, const std::function<void()>& prepare = {}) {
    const Outcome o = run(arguments, prepare);
    EXPECT_EQ(o.status, status) << o.err;
    const auto lines = lines_of(o.err);
    ASSERT_FALSE(lines.empty()) << "nothing was said; wanted: " << text;
    EXPECT_EQ(lines.back().rfind("gemel: ", 0), 0u) << o.err;
    EXPECT_NE(lines.back().find(text), std::string::npos) << "wanted: " << text << "\ngot: " << o.err;
    for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
      bool known = false;
      for (const char* begin : {"device: ", "model: ", "resume: ", "epoch "}) known = known || lines[i].rfind(begin, 0) == 0;
      EXPECT_TRUE(known) << o.err;
    }
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace gemel::testing
