// What a run leaves behind in every ending: log, summary, TensorBoard file, trace. The same for train, eval and infer.
#include <stdlib.h>

#include <cmath>
#include <map>
#include <random>

#include "datasets/formats/npy.h"
#include "engine/base/usage/power_meter.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;

class Record : public CommandLine {
 protected:
  Words recorded(const Words& more) const { return joined(more, {"--log-dir", in_folder("log"), "--profile", in_folder("trace.json")}); }

  Json summary() const { return Json::parse(read_text(folder() / "log" / "summary.json")); }

  /// A whole record of a run that ended so: the log's ends, the summary, and a trace that charges kernels with their work.
  void expect_record(const std::string& status) const {
    const auto all = events("log");
    ASSERT_GE(all.size(), 2u);
    EXPECT_EQ(all.front()["event"], "start");
    for (const char* key : {"argv", "version", "device", "model", "parameters", "ranks"}) EXPECT_TRUE(all.front().contains(key)) << key;
    EXPECT_EQ(all.back()["event"], "end");
    EXPECT_EQ(all.back()["status"], status);
    EXPECT_EQ(summary()["status"], status);
    EXPECT_EQ(summary()["model"], "lenet");
    const Json trace = Json::parse(read_text(folder() / "trace.json"));
    std::map<std::string, std::int64_t> flops;
    double last = 0;
    using Track = std::pair<int, int>;
    std::map<int, std::string> processes;
    std::map<Track, std::string> tracks;
    for (const Json& e : trace["traceEvents"]) {
      if (e["ph"] == "M") {
        (e["name"] == "process_name" ? processes[e["pid"]] : tracks[{e["pid"], e["tid"]}]) = e["args"]["name"];
        continue;
      }
      EXPECT_EQ(e["ph"], "X");
      EXPECT_TRUE(tracks.contains({e["pid"], e["tid"]})) << "it lies on a track that was named before";
      EXPECT_GE(e["ts"], last) << "one queue, in order";
      EXPECT_GE(e["dur"], 0);
      EXPECT_GE(e["args"]["bytes"], 0);
      last = e["ts"];
      const std::string name = e["name"];  // "conv2d/pack_panels": the operator and the kernel
      flops[name.substr(0, name.find('/'))] += e["args"]["flops"].get<std::int64_t>();
    }
    EXPECT_EQ(processes, (std::map<int, std::string>{{0, "rank 0"}}));
    EXPECT_EQ(tracks, (std::map<Track, std::string>{{{0, 0}, "compute queue"}}));
    ASSERT_TRUE(flops.contains("conv2d")) << trace["traceEvents"].size() << " events";
    EXPECT_GT(flops["conv2d"], 0);
  }

  /// Pictures that all differ.
  std::vector<float> pictures(std::int64_t count) const {
    std::mt19937 draws(5);
    std::vector<float> out(static_cast<std::size_t>(count * 3 * 32 * 32));
    for (float& x : out) x = static_cast<float>(draws() % 1024) / 1024;
    return out;
  }
  void write_npy(const std::string& name, const Spec& spec, const auto& numbers) const {
    datasets::write_npy(folder() / name, spec, std::as_bytes(std::span(numbers)));
  }
  /// Rows of logits.
  std::vector<std::vector<float>> rows_of(const std::string& name) const {
    const datasets::NpyFile file(folder() / name);
    const auto width = static_cast<std::size_t>(file.shape()[1]);
    std::vector<std::vector<float>> out(static_cast<std::size_t>(file.shape()[0]), std::vector<float>(width));
    for (std::size_t i = 0; i < out.size(); ++i) std::memcpy(out[i].data(), file.data().data() + i * width * 4, width * 4);
    return out;
  }
};

TEST_F(Record, is_whole_after_a_good_run) {
  const Outcome o = run(recorded(training({"--epochs", "2"})));
  ASSERT_EQ(o.status, 0) << o.err;
  expect_record("ok");
  EXPECT_EQ(summary()["steps"], 10);
  EXPECT_EQ(summary()["last_epoch"]["epoch"], 2);
}

TEST_F(Record, is_whole_after_a_failed_run) {
  expect_refused(recorded(training({"--lr", "1e30", "--optimizer", "sgd", "--epochs", "3"})), 1, "train: the loss of step ");
  expect_record("failed");
}

TEST_F(Record, is_whole_after_an_interrupt_and_lacks_no_epoch_but_the_last) {
  // One batch an epoch: every interrupt comes at an epoch's last batch, or in the validation that follows it and is then cut short.
  const pid_t child =
      start(recorded({"train", "--model", "lenet", "--limit", "8", "--batch-size", "8", "--epochs", "100000", "--checkpoint-dir", in_folder("c")}));
  while (read_text(folder() / "log" / "run.jsonl").find("\"step\"") == std::string::npos && ::waitpid(child, nullptr, WNOHANG) == 0) std::this_thread::yield();
  ::kill(child, SIGINT);
  EXPECT_EQ(finish(child).status, 1);
  expect_record("interrupted");
  std::size_t epochs = 0;
  for (const Json& e : events("log"))
    if (e["event"] == "epoch") {
      ++epochs;
      EXPECT_TRUE(e.contains("val_loss"));
    }
  EXPECT_GE(epochs + 1, losses("log").size());
  EXPECT_LE(epochs, losses("log").size());
}

TEST_F(Record, has_what_the_run_uses_each_second) {
  const pid_t child = start({"train", "--model", "lenet", "--epochs", "100000", "--log-dir", in_folder("log")});
  while (read_text(folder() / "log" / "run.jsonl").find("\"usage\"") == std::string::npos && ::waitpid(child, nullptr, WNOHANG) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ::kill(child, SIGINT);
  EXPECT_EQ(finish(child).status, 1);
  const auto all = all_events("log");
  double last = 0;
  int lines = 0;
  for (const Json& e : all) {
    if (e["event"] != "usage") continue;
    ++lines;
    EXPECT_EQ(e["rank"], 0);
    EXPECT_GT(e["cpu"], 0);
    EXPECT_LE(e["cpu"], 1);
    EXPECT_GT(e["resident_bytes"], 1 << 20);
    EXPECT_GT(e["device_bytes"], 0);
    EXPECT_GT(e["seconds"], last);
    last = e["seconds"];
    if (e.contains("device_busy")) {
      EXPECT_GT(e["device_busy"], 0);
      EXPECT_LE(e["device_busy"], 1);
    }
    EXPECT_EQ(e.contains("watts"), PowerMeter().why_none().empty());
  }
  EXPECT_GE(lines, 1) << last;
  EXPECT_LE(lines, all.back()["seconds"].get<double>() + 1);
  EXPECT_EQ(all.front()["event"], "start");
  EXPECT_EQ(all.back()["event"], "end");
}

TEST_F(Record, is_kept_of_evaluation_and_inference) {
  ASSERT_EQ(run(training({"--steps", "2", "--save", in_folder("w.safetensors")})).status, 0);
  write_npy("x.npy", f32({5, 3, 32, 32}), pictures(5));
  const Words model{"--model", "lenet", "--weights", in_folder("w.safetensors"), "--batch-size", "2"};
  const Outcome eval = run(recorded(joined({"eval", "--limit", "5"}, model)));
  ASSERT_EQ(eval.status, 0) << eval.err;
  expect_record("ok");
  EXPECT_EQ(events("log").at(1)["event"], "eval");
  EXPECT_EQ(summary()["samples"], 5);
  EXPECT_EQ(summary()["accuracy"], events("log").at(1)["accuracy"]);
  fs::remove_all(folder() / "log");
  fs::remove(folder() / "trace.json");
  const Outcome infer = run(recorded(joined({"infer", "--input", in_folder("x.npy"), "--output", in_folder("y.npy")}, model)));
  ASSERT_EQ(infer.status, 0) << infer.err;
  expect_record("ok");
  EXPECT_EQ(summary()["samples"], 5);
  fs::remove_all(folder() / "log");
  expect_refused(recorded(joined({"eval", "--dataset", "npy", "--data", in_folder("none")}, model)), 1, "none/images.npy");
  EXPECT_EQ(events("log").back()["status"], "failed");
  EXPECT_EQ(summary()["status"], "failed");
}

TEST_F(Record, has_every_scalar_in_a_tensorboard_file) {
  ASSERT_EQ(run(training({"--epochs", "2", "--log-dir", in_folder("log")})).status, 0);
  std::string text;
  for (const auto& entry : fs::directory_iterator(folder() / "log"))
    if (entry.path().filename().string().rfind("events.out.tfevents.", 0) == 0) text += read_text(entry.path());
  const auto count = [&text](const std::string& tag) {
    int found = 0;
    for (std::size_t at = text.find(tag); at != std::string::npos; at = text.find(tag, at + 1)) ++found;
    return found;
  };
  for (const char* tag : {"train/loss", "train/lr"}) EXPECT_EQ(count(tag), 10) << tag;
  for (const char* tag : {"train/accuracy", "validation/loss", "validation/accuracy"}) EXPECT_EQ(count(tag), 2) << tag;
}

TEST_F(Record, of_evaluation_is_what_inference_says_of_each_picture) {
  ASSERT_EQ(run(training({"--save", in_folder("w.safetensors")})).status, 0);
  const Words model{"--model", "lenet", "--weights", in_folder("w.safetensors"), "--graph-passes", "none"};
  write_npy("images.npy", f32({20, 3, 32, 32}), pictures(20));
  for (const std::string frontend : {"eager", "graph"}) {
    const Outcome o =
        run(joined({"infer", "--input", in_folder("images.npy"), "--output", in_folder(frontend), "--batch-size", "3", "--frontend", frontend}, model));
    ASSERT_EQ(o.status, 0) << o.err;
  }
  EXPECT_EQ(read_text(folder() / "eager"), read_text(folder() / "graph"));
  const auto rows = rows_of("eager");
  ASSERT_EQ(rows.size(), 20u);
  EXPECT_NE(rows[0], rows[19]) << "different pictures have different outputs";
  // Labels by which 13 of 20 guesses are right.
  std::vector<std::int64_t> labels;
  double loss = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t guess = std::max_element(rows[i].begin(), rows[i].end()) - rows[i].begin();
    labels.push_back(i % 3 == 1 ? (guess + 1) % 10 : guess);
    double sum = 0;
    for (const float x : rows[i]) sum += std::exp(double{x});
    loss += (std::log(sum) - double{rows[i][static_cast<std::size_t>(labels.back())]}) / 20;
  }
  write_npy("labels.npy", i64({20}), labels);
  for (const char* frontend : {"eager", "graph"}) {
    const Outcome o =
        run(joined({"eval", "--dataset", "npy", "--data", folder().string(), "--classes", "10", "--batch-size", "6", "--frontend", frontend}, model));
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_NE(o.out.find("samples 20\n"), std::string::npos) << o.out;
    EXPECT_EQ(number_after(o.out, "accuracy "), 0.65) << o.out;
    EXPECT_NEAR(number_after(o.out, "loss "), loss, 2e-6) << "six digits are printed, float32 rounds in the seventh";
  }
}

TEST_F(Record, tells_which_variant_computes_what) {
  const Outcome o = run(training({"--steps", "1"}), [] { ::setenv("GEMEL_VERBOSE", "dispatch", 1); });
  ASSERT_EQ(o.status, 0) << o.err;
  int convolutions = 0;
  for (const std::string& line : lines_of(o.err))
    convolutions += line.rfind("dispatch: conv2d float32 [8, 32, 32, 3]", 0) == 0 && line.find(" -> ") != std::string::npos;
  EXPECT_EQ(convolutions, 1) << o.err;
}

}  // namespace
}  // namespace gemel::testing
