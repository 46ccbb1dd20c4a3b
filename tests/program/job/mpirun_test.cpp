// Jobs: the gemel program on several ranks under mpirun.
#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <random>
#include <set>

#include "engine/base/dtype.h"
#include "engine/base/dtype_conversion.h"
#include "engine/base/files/folder_lock.h"
#include "engine/base/resource_limits.h"
#include "engine/files/safetensors.h"
#include "frontends/models/pictures/picture_models.h"
#include "tests/support/datasets/pictures_folder.h"
#include "tests/support/device/test_device.h"
#include "tests/support/models/fresh_weights.h"
#include "tests/support/program/job_fixture.h"

namespace gemel::testing {
namespace {

TEST_F(Job, of_two_ranks_trains_as_one_process_and_goes_on_with_one) {
  launcher_.clear();
  ASSERT_EQ(run(lenet({"--steps", "8", "--log-dir", in_folder("alone")})).status, 0);
  on_ranks(2);
  const std::vector<std::string> with_checkpoints{"--checkpoint-dir", in_folder("c"), "--log-dir", in_folder("job"), "--resume", "auto"};
  auto ddp = lenet({"--steps", "5", "--parallel", "ddp"});
  ddp.insert(ddp.end(), with_checkpoints.begin(), with_checkpoints.end());
  const Outcome o = finish(start_job(ddp));
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(std::ranges::count_if(lines_of(o.out), [](const std::string& l) { return l.starts_with("epoch 1:"); }), 1) << "one rank speaks: " << o.out;
  const Json first = events("job").front();
  EXPECT_EQ(first["ranks"], 2);
  EXPECT_EQ(first["parallel"], "ddp");
  EXPECT_TRUE(events("job")[1].contains("exposed_comm_ms"));
  launcher_.clear();
  auto rest = lenet({"--steps", "8"});
  rest.insert(rest.end(), with_checkpoints.begin(), with_checkpoints.end());
  ASSERT_EQ(run(rest).status, 0);
  ASSERT_EQ(losses("job").size(), 8u);
  expect_losses_as_alone("job");
}

TEST_F(Job, in_horovods_style_trains_as_one_process_and_draws_its_timeline) {
  launcher_.clear();
  ASSERT_EQ(run(lenet({"--steps", "6", "--log-dir", in_folder("alone")})).status, 0);
  on_ranks(2);
  const auto prepare = [this] {
    ::setenv("HOROVOD_TIMELINE", in_folder("timeline.json").c_str(), 1);
    ::setenv("HOROVOD_GPU_OPERATIONS", "NCCL", 1);
  };
  const Outcome o = finish(start_job(lenet({"--steps", "6", "--parallel", "horovod", "--frontend", "graph", "--log-dir", in_folder("job")}), prepare));
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(lines_with("horovod: HOROVOD_GPU_OPERATIONS in the environment: nothing reads it here", o), 1) << o.err;
  ASSERT_EQ(losses("job").size(), 6u);
  expect_losses_as_alone("job");
  std::set<int> ranks;
  int gradients = 0;
  const Json timeline = Json::parse(read_text(folder() / "timeline.json"));
  for (const Json& e : timeline["traceEvents"])
    if (e["name"] == "ALLREDUCE") {
      ranks.insert(e["pid"].get<int>());
      ++gradients;
    }
  EXPECT_EQ(ranks, (std::set<int>{0, 1}));
  EXPECT_EQ(gradients, 2 * 6 * 11) << "ten parameters, and which of them were used";
  const Outcome wrong = finish_within(std::chrono::seconds(5), start_job(lenet({"--parallel", "horovod"}), [] { ::setenv("HOROVOD_CYCLE_TIME", "fast", 1); }));
  EXPECT_EQ(wrong.status, 2);
  EXPECT_EQ(lines_with("gemel: HOROVOD_CYCLE_TIME: 'fast'; accepted: a number from 0 to 1000000", wrong), 1) << wrong.err;
}

TEST_F(Job, with_shares_by_rate_trains_as_one_process_and_says_what_it_normalises_over) {
  launcher_.clear();
  ASSERT_EQ(run(lenet({"--steps", "12", "--log-dir", in_folder("alone")})).status, 0);
  on_ranks(2);
  const Outcome o = finish(start_job(lenet({"--steps", "12", "--parallel", "ddp", "--balance", "auto", "--log-dir", in_folder("job")})));
  ASSERT_EQ(o.status, 0) << o.err;
  ASSERT_EQ(losses("job").size(), 12u);
  expect_losses_as_alone("job");
  const Outcome normed = finish(start_job(
      {"train", "--model", "resnet18", "--limit", "16", "--batch-size", "8", "--steps", "1", "--eval-every", "0", "--parallel", "ddp", "--balance", "auto"}));
  EXPECT_EQ(normed.status, 0) << normed.err;
  EXPECT_EQ(lines_with("balance: resnet18 has batch statistics, which are taken over the whole batch (--sync-bn)", normed), 1) << normed.err;
}

TEST_F(Job, normalises_over_the_whole_batch_in_ddp_and_horovod_alike) {
  on_ranks(2);
  for (const std::string style : {"ddp", "horovod"}) {
    const Outcome o = finish(start_job({"train", "--model", "resnet18", "--limit", "32", "--batch-size", "8", "--steps", "4", "--eval-every", "0", "--sync-bn",
                                        "--lr", "1e-3", "--parallel", style, "--log-dir", in_folder(style)}));
    ASSERT_EQ(o.status, 0) << o.err;
  }
  const auto ddp = losses("ddp"), horovod = losses("horovod");
  ASSERT_EQ(horovod.size(), 4u) << "steps whose moments wait for the gradients of the one before";
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(horovod[i], ddp[i], 1e-5 * ddp[i]) << "step " << i + 1 << ": sums of float32 in another order";
}

TEST_F(Job, saves_the_weights_of_one_process_in_every_style) {
  launcher_.clear();
  ASSERT_EQ(run(lenet({"--steps", "2", "--save", in_folder("alone.safetensors")})).status, 0);
  const SafetensorsFile alone(in_folder("alone.safetensors"));
  on_ranks(2);
  for (const std::string style : {"ddp", "horovod", "pipeline"}) {
    SCOPED_TRACE(style);
    const Outcome o = finish(start_job(lenet({"--steps", "2", "--parallel", style, "--save", in_folder(style + ".safetensors")})));
    ASSERT_EQ(o.status, 0) << o.err;
    const SafetensorsFile saved(in_folder(style + ".safetensors"));
    ASSERT_EQ(saved.tensors().size(), alone.tensors().size());
    for (std::size_t i = 0; i < alone.tensors().size(); ++i) {
      const NamedTensor &a = saved.tensors()[i], &b = alone.tensors()[i];
      ASSERT_EQ(a.name, b.name);
      const auto x = numbers_from_bytes(a.spec.dtype, a.data), y = numbers_from_bytes(b.spec.dtype, b.data);
      ASSERT_EQ(x.size(), y.size());
      for (std::size_t k = 0; k < x.size(); ++k) ASSERT_NEAR(x[k], y[k], 1e-6) << a.name << " " << k;
    }
  }
}

TEST_F(Job, of_stages_trains_as_one_process_saves_the_whole_model_and_refuses_cuts_that_cannot_be) {
  launcher_.clear();
  ASSERT_EQ(run(lenet({"--steps", "6", "--log-dir", in_folder("alone")})).status, 0);
  on_ranks(2);
  const Outcome o = finish(start_job(
      lenet({"--steps", "6", "--parallel", "pipeline", "--microbatches", "4", "--save", in_folder("saved.safetensors"), "--log-dir", in_folder("job")})));
  ASSERT_EQ(o.status, 0) << o.err;
  ASSERT_EQ(losses("job").size(), 6u);
  expect_losses_as_alone("job");
  EXPECT_EQ(events("job").front()["each_rank"][1]["stage"], 1);
  EXPECT_GT(events("job")[1]["exposed_comm_ms"].get<double>(), 0) << "the first stage waits for the last";
  const std::pair<std::vector<std::string>, std::string> refused[] = {
      {{"--stages", "nonsense"}, "gemel: pipeline: no module 'nonsense' computes anything; accepted: "},
      {{"--stages", "conv2,fc1"}, "gemel: --stages: conv2,fc1 cuts the model into 3 pieces; accepted: 2, one a stage"},
      {{"--stages", "fc1,conv2,fc2", "--pipeline-schedule", "interleaved"}, "gemel: pipeline: 'conv2' is named behind 'fc1' and runs before it; accepted: "},
      {{"--memory-limit", "100K"}, "gemel: pipeline: stage "},
      {{"--pipeline-stages", "3"}, "gemel: --pipeline-stages: 3 stages on 2 ranks; accepted: a divisor of the ranks"},
      {{"--pipeline-schedule", "interleaved", "--microbatches", "3"},
       "gemel: --microbatches: 3 with --pipeline-schedule interleaved over 2 stages; accepted: a multiple of the stages"},
      {{"--microbatches", "13"}, "gemel: --microbatches: 13 of 12 samples that a copy of the model has of a batch; accepted: at most one a sample"},
      {{"--compression", "fp16"}, "gemel: --compression: it is given with a pipeline of one copy, in which no gradients are summed over ranks; accepted: "}};
  for (const auto& [options, line] : std::span(refused).first(is_full_run() ? std::size(refused) : 4)) {  // each is a start of MPI
    std::vector<std::string> all{"--parallel", "pipeline"};
    all.insert(all.end(), options.begin(), options.end());
    const Outcome refusal = finish_within(std::chrono::seconds(5), start_job(lenet(all)));
    EXPECT_NE(refusal.status, 0);
    EXPECT_EQ(lines_with(line, refusal), 1) << refusal.err;
  }
}

TEST_F(Job, of_stages_begins_with_weights_of_a_file_and_evaluates_them) {
  launcher_.clear();
  const std::string weights = in_folder("weights.safetensors");
  ASSERT_EQ(run(lenet({"--steps", "2", "--save", weights})).status, 0);
  ASSERT_EQ(run(lenet({"--steps", "2", "--weights", weights, "--log-dir", in_folder("alone")})).status, 0);
  const std::vector<std::string> eval{"eval", "--model", "lenet", "--weights", weights, "--limit", "44", "--batch-size", "16"};  // the last batch is smaller
  const Outcome alone = run(eval);
  ASSERT_EQ(alone.status, 0) << alone.err;
  on_ranks(2);
  const Outcome o = finish(start_job(lenet({"--steps", "2", "--weights", weights, "--parallel", "pipeline", "--log-dir", in_folder("job")})));
  ASSERT_EQ(o.status, 0) << o.err;
  ASSERT_EQ(losses("job").size(), 2u);
  expect_losses_as_alone("job");
  for (const std::string frontend : {"eager", "graph"}) {
    std::vector<std::string> shared = eval;
    shared.insert(shared.end(), {"--parallel", "pipeline", "--microbatches", "3", "--frontend", frontend});
    const Outcome stages = finish(start_job(shared));
    ASSERT_EQ(stages.status, 0) << stages.err;
    const auto a = lines_of(alone.out), b = lines_of(stages.out);
    ASSERT_EQ(b.size(), a.size()) << stages.out;
    for (std::size_t i = 0; i < a.size(); ++i) {  // "loss 2.301234"
      EXPECT_EQ(b[i].substr(0, b[i].find(' ')), a[i].substr(0, a[i].find(' ')));
      EXPECT_NEAR(std::stod(b[i].substr(b[i].find(' '))), std::stod(a[i].substr(a[i].find(' '))), 2e-6) << b[i];
    }
  }
}

TEST_F(Job, ends_with_one_line_when_a_rank_is_killed_and_leaves_no_process) {
  on_ranks(2);
  const pid_t job = start_job(lenet({"--epochs", "100000", "--parallel", "ddp", "--log-dir", in_folder("killed")}));
  // A rank that compiles for longer than it is given for its last words writes none: the last batch of an epoch has kernels of its own.
  ASSERT_TRUE(comes_to("epoch", job, "killed")) << read_text(folder() / "err");
  const std::vector<pid_t> ranks = ranks_of(job);
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(ranks[1], SIGKILL);
  const Outcome o = finish_within(std::chrono::seconds(7), job);
  EXPECT_NE(o.status, 0);
  const auto lines = lines_of(o.err);
  EXPECT_EQ(std::ranges::count_if(
                lines, [](const std::string& l) { return l.starts_with("gemel: rank 1 of 2 on ") && l.find(" was lost: its connection closed") != l.npos; }),
            1)
      << o.err;
  EXPECT_EQ(events("killed").back()["status"], "failed");
  expect_gone(ranks);
}

TEST_F(Job, killed_or_stopped_at_any_moment_ends_and_leaves_no_process_and_whole_checkpoints) {
  std::mt19937 random(1);
  const int signals[] = {SIGKILL, SIGTERM, SIGSEGV, SIGSTOP};
  const int times = is_full_run() ? 50 : 2;
  for (int i = 0; i < times; ++i) {
    on_ranks(2);
    const bool is_short = i % 5 == 4;  // so that the end of a run is met too
    const std::string log = fmt::format("run{}", i);
    const pid_t job = start_job(lenet({"--epochs", is_short ? "2" : "100000", "--parallel", "ddp", "--heartbeat", "2", "--checkpoint-dir", in_folder("c"),
                                       "--checkpoint-every", "2", "--log-dir", in_folder(log)}));
    std::vector<pid_t> ranks;
    ASSERT_TRUE(until([&] { return (ranks = ranks_of(job)).size() == 2 || !runs(job); }, std::chrono::seconds(10))) << read_text(folder() / "err");
    ASSERT_EQ(ranks.size(), 2u) << read_text(folder() / "err");
    const int signal = signals[i % 4];
    if (i % 3 == 0 || signal == SIGSTOP) {  // MPI's own start waits for a rank that is stopped in it
      ASSERT_TRUE(begins(job, log)) << read_text(folder() / "err");
    }
    const int rank = static_cast<int>(random() % 2), delay = static_cast<int>(random() % 3000);
    SCOPED_TRACE(fmt::format("signal {} to rank {} after {} ms", signal, rank, delay));
    std::this_thread::sleep_for(std::chrono::milliseconds(delay));
    const bool is_training = !is_short && has_step(log);  // before, the ranks may not watch each other yet
    const pid_t hit_rank = ranks[static_cast<std::size_t>(rank)];
    hit(hit_rank, signal);
    // One that is stopped when the other has ended has nobody to end it: it goes on where it is continued.
    if (is_short && signal == SIGSTOP && !until([&] { return !runs(job); }, std::chrono::seconds(8)) && ranks_of(job) == std::vector{hit_rank})
      ::kill(hit_rank, SIGCONT);
    const Outcome o = finish_within(std::chrono::seconds(signal == SIGSTOP ? 10 : 7), job);
    EXPECT_TRUE(is_short || o.status != 0);
    if (is_training && signal != SIGTERM) {
      EXPECT_EQ(lines_with(fmt::format("gemel: rank {} of 2 on ", rank), o), 1) << o.err;
    }
    expect_gone(ranks);
  }
  launcher_.clear();
  const Outcome rest = run(lenet({"--epochs", "1", "--checkpoint-dir", in_folder("c"), "--resume", "auto"}));
  EXPECT_EQ(rest.status, 0) << rest.err;
  for (const auto& entry : std::filesystem::directory_iterator(in_folder("c")))  // what writers that were killed began is taken away by the next one
    EXPECT_EQ(entry.path().extension(), ".safetensors") << entry.path();
}

TEST_F(Job, of_four_ranks_builds_each_kernel_once_and_leaves_no_half_one) {
  if (!is_full_run()) GTEST_SKIP() << "with --full";
  if (!test_device().profile().is_pocl()) GTEST_SKIP() << "of PoCL's cache";
  const auto processor_seconds = [] {
    rusage used{};
    ::getrusage(RUSAGE_CHILDREN, &used);
    return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  };
  const auto cold = [&](int ranks) {
    on_ranks(ranks);
    const double before = processor_seconds();
    const pid_t job = start_job({"train", "--model", "perceptron", "--limit", "16", "--batch-size", "8", "--eval-every", "0", "--parallel", "ddp"}, [&] {
      ::unsetenv("POCL_CACHE_DIR");
      ::setenv("GEMEL_CACHE_DIR", in_folder("cache" + std::to_string(ranks)).c_str(), 1);
    });
    const Outcome o = finish_within(std::chrono::seconds(120), job);
    EXPECT_EQ(o.status, 0) << o.err;
    return processor_seconds() - before;
  };
  const double one = cold(1), four = cold(4);
  EXPECT_LT(four, 2.8 * one) << "four that build for themselves take four times as long";
  int programs = 0, kernels = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(in_folder("cache4"))) {
    const std::string name = entry.path().filename();
    if (!entry.is_regular_file() || name == "last_accessed" || name == "gemel.lock" || name == "in_use" || name == "turn" || name == "manifest") continue;
    programs += name == "program.bc";
    kernels += entry.path().extension() == ".so";
    EXPECT_TRUE(name == "program.bc" || entry.path().extension() == ".so") << "left over: " << entry.path();
  }
  EXPECT_GT(programs, 3);
  EXPECT_GT(kernels, 3);
}

TEST_F(Job, of_ranks_on_two_platforms_trains_as_one_process) {
  if (!is_full_run()) GTEST_SKIP() << "with --full";
  const auto with_rusticl = [] { ::setenv("RUSTICL_ENABLE", "llvmpipe", 1); };
  const Outcome devices = run({"devices"}, with_rusticl);
  if (devices.out.find("rusticl") == std::string::npos) GTEST_SKIP() << "rusticl is not installed";
  ASSERT_EQ(run(lenet({"--steps", "6", "--log-dir", in_folder("alone")})).status, 0);
  for (const std::string style : {"ddp", "horovod", "pipeline", "mirrored"}) {
    if (style == "mirrored")
      launcher_.clear();
    else
      on_ranks(2);
    const Outcome o =
        finish(start_job(lenet({"--steps", "6", "--log-dir", in_folder(style), "--parallel", style, "--devices", "portable:cpu,rusticl:0"}), with_rusticl));
    ASSERT_EQ(o.status, 0) << o.err;
    const Json ranks = events(style).front()["each_rank"];
    EXPECT_NE(ranks[0]["platform"], ranks[1]["platform"]);
    ASSERT_EQ(losses(style).size(), 6u);
    expect_losses_as_alone(style);
  }
}

TEST_F(Job, that_is_launched_stops_with_one_checkpoint_on_ctrl_c) {
  launcher_.clear();
  std::vector<std::string> words = lenet({"--epochs", "100000", "--parallel", "ddp", "--log-dir", in_folder("launched"), "--checkpoint-dir", in_folder("c")});
  words.insert(words.begin(), {"launch", "--np", "2"});
  const pid_t job = start_job(words);
  ASSERT_TRUE(begins(job, "launched")) << read_text(folder() / "err");
  ::kill(job, SIGINT);
  const Outcome o = finish_within(std::chrono::seconds(20), job);
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(lines_with("gemel: interrupted: the step under way is finished first", o), 1) << o.err;
  EXPECT_EQ(events("launched").back()["status"], "interrupted") << o.err;
  EXPECT_NE(o.err.find(": saved in " + in_folder("c")), std::string::npos) << o.err;
  EXPECT_FALSE(std::filesystem::is_empty(in_folder("c")));
}

TEST_F(Job, with_an_error_of_one_rank_ends_soon_and_tells_it_once) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string on = fmt::format(" of 2 on {}: ", host.data());
  expect_refused_on(2, lenet({"--parallel", "ddp", "--checkpoint-dir", "/proc/none"}), "rank 0" + on);
  const FolderLock living(folder(), "checkpoint");
  expect_refused_on(2, lenet({"--parallel", "ddp", "--checkpoint-dir", folder().string()}),
                    "rank 0" + on + "checkpoint: " + folder().string() + " is in use by another run, process ");
  expect_refused_on(2, lenet({"--parallel", "ddp", "--devices", "portable:cpu,nothere:0"}), "rank 1" + on + "platform: 'nothere' is not found");
  expect_refused_on(2, lenet({"--parallel", "ddp", "--interface", "nosuch"}), "interface: nosuch is not there on rank 0's host, or has no address; accepted: ");
}

TEST_F(Job, records_what_each_rank_uses) {
  on_ranks(2);
  const pid_t job = start_job(lenet({"--parallel", "ddp", "--epochs", "1000000", "--log-dir", in_folder("log")}));
  const auto uses = [&](int rank) { return read_text(folder() / "log" / "run.jsonl").find(fmt::format("\"usage\",\"rank\":{}", rank)) != std::string::npos; };
  EXPECT_TRUE(until([&] { return uses(0) && uses(1); }, std::chrono::seconds(60)));
  ::kill(job, SIGINT);
  finish(job);
}

TEST_F(Job, whose_data_shrink_names_the_file_once_and_ends_its_record) {
  write_pictures(folder() / "data", 24, std::vector<std::int64_t>(24, 1));
  const auto size = std::filesystem::file_size(folder() / "data/images.npy");
  on_ranks(2);
  const pid_t job = start_job({"train", "--model", "lenet", "--batch-size", "12", "--dataset", "npy", "--data", in_folder("data"), "--parallel", "ddp",
                               "--epochs", "1000000", "--log-dir", in_folder("log")});
  ASSERT_TRUE(begins(job, "log")) << read_text(folder() / "err");
  std::filesystem::resize_file(folder() / "data/images.npy", 1000);
  const Outcome o = finish_within(std::chrono::seconds(15), job);
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(lines_with("gemel: ", o), 1) << o.err;
  EXPECT_EQ(
      lines_with("read: " + in_folder("data/images.npy") + fmt::format(" has changed since it was opened: it had {} bytes, and has 1000; accepted: ", size), o),
      1)
      << o.err;
  EXPECT_EQ(events("log").back()["event"], "end");
  EXPECT_EQ(events("log").back()["status"], "failed");
}

TEST_F(Job, that_evaluates_weights_that_give_no_number_says_so_once) {
  write_fresh_weights(*models::make("lenet", {.classes = 10}), folder() / "nan.safetensors", {"fc3.bias"});
  on_ranks(2);
  const Words eval{"eval", "--model", "lenet", "--limit", "8", "--batch-size", "4", "--parallel", "ddp", "--weights", in_folder("nan.safetensors")};
  const Outcome o = finish_within(std::chrono::seconds(15), start_job(eval));
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(lines_with("gemel: ", o), 1) << o.err;
  EXPECT_EQ(lines_with("eval: the loss is ", o), 1) << o.err;
  EXPECT_EQ(o.out, "");
}

TEST_F(Job, of_ranks_with_different_options_is_refused_in_one_table) {
  on_ranks(2);
  for (const char* word : {"sh", "-c", "exec \"$@\" --lr 0.$((OMPI_COMM_WORLD_RANK + 1))", "sh"}) launcher_.emplace_back(word);
  expect_told_once("ranks: they do not run the same; accepted: on every rank the same value of", start_job(lenet({"--parallel", "ddp"})));
  const std::string told = read_text(folder() / "err");
  EXPECT_NE(told.find("\n  lr:\n    rank 0: 0.1\n    rank 1: 0.2\n"), std::string::npos) << told;
}

TEST_F(Job, of_devices_of_which_some_have_matrix_units_is_refused_where_tf32_is_asked_for) {
  if (test_device().profile().is_emulator || !test_device().profile().is_cpu()) GTEST_SKIP() << "a CPU pretends";
  on_ranks(2);
  for (const char* word : {"sh", "-c", "[ $OMPI_COMM_WORLD_RANK = 1 ] || export GEMEL_PRETEND=gpu:tf32=1; exec \"$@\"", "sh"}) launcher_.emplace_back(word);
  expect_told_once("ranks: they do not run the same; accepted: on every rank the same value of",
                   start_job(lenet({"--parallel", "ddp", "--precision", "tf32"})));
  const std::string told = read_text(folder() / "err");
  EXPECT_NE(told.find("\n  precision of the device's products:\n    rank 1: float32\n    rank 0: tf32\n"), std::string::npos) << told;
}

TEST_F(Job, that_is_launched_ends_when_it_is_asked_to_at_any_moment_of_its_start) {
  launcher_.clear();
  for (const int milliseconds : {20, 200, 700}) {
    const pid_t job = start({"launch", "--np", "2", "train", "--model", "lenet", "--limit", "512", "--epochs", "1000", "--parallel", "ddp"});
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    if (milliseconds == 700) {
      ASSERT_TRUE(until([&] { return has_handler(job, SIGINT) || !runs(job); }, std::chrono::seconds(10))) << "it never notes requests";
    }
    const bool notes_requests = has_handler(job, SIGINT);
    ::kill(job, SIGINT);
    const int status = finish_within(std::chrono::seconds(15), job).status;
    EXPECT_TRUE(status == 1 || (!notes_requests && status == 128 + SIGINT)) << status << ", asked after " << milliseconds << " ms";
  }
}

TEST_F(Job, that_is_launched_is_refused_what_no_machine_can_start) {
  launcher_.clear();
  const auto refused = [this](const std::vector<std::string>& arguments, const std::string& text) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.status, 2);
    EXPECT_EQ(o.err, "gemel: " + text + "\n");
  };
  refused({"launch", "--np", "2", "trian"},
          "launch: 'trian' is no command that it starts, did you mean 'train'?; accepted: train, bench or eval, such as gemel launch --np 2 train --parallel "
          "ddp ...");
  refused({"launch", "--np", "2"},
          "launch: there is no command that it starts; accepted: train, bench or eval, such as gemel launch --np 2 train --parallel ddp ...");
  const int cores = allowed_cores().count();
  refused(
      {"launch", "--np", "100000", "train", "--parallel", "ddp"},
      fmt::format("launch: --np 100000 is more than 16 processes for each of the cores that may be used here, {} in all; accepted: --np {} or less, or --hosts",
                  cores, 16 * cores));
  const Outcome ranks = run({"launch", "--np", "2", "train", "--parallel", "ddp", "--collective", "rnig"});
  EXPECT_EQ(ranks.status, 2) << "as one process";
  EXPECT_EQ(lines_with("mpirun", ranks), 0) << ranks.err;
}

TEST_F(Job, without_parallel_is_not_launched) {
  launcher_.clear();
  const Outcome o = run({"launch", "--np", "2", "train", "--model", "lenet"});
  EXPECT_EQ(o.status, 2);
  EXPECT_EQ(
      o.err,
      "gemel: launch: --parallel is missing, so that each of 2 processes would run for itself and write the same files; accepted: gemel launch --np 2 train "
      "--parallel ddp ...\n");
}

TEST_F(Job, that_is_launched_divides_the_processors_among_its_ranks) {
  if (!test_device().profile().is_pocl()) GTEST_SKIP() << "needs a device that divides";
  launcher_.clear();
  const int processors = allowed_cores().count();
  for (const int ranks : {2, processors + 2}) {
    const std::string log = fmt::format("of{}", ranks);
    std::vector<std::string> words = lenet({"--steps", "2", "--parallel", "ddp", "--log-dir", in_folder(log)});
    words.insert(words.begin(), {"launch", "--np", std::to_string(ranks)});
    const Outcome o = finish_within(std::chrono::seconds(60), start_job(words));
    ASSERT_EQ(o.status, 0) << o.err;
    const Json each = events(log).front()["each_rank"];
    ASSERT_EQ(each.size(), static_cast<std::size_t>(ranks));
    for (const Json& rank : each) EXPECT_EQ(rank["units"], std::max(1, processors / ranks)) << each.dump();
  }
}

TEST_F(Job, is_refused_options_that_would_do_nothing) {
  launcher_.clear();
  for (const std::string option : {"--bucket-mb", "--first-bucket-mb", "--compression", "--collective", "--heartbeat", "--stall-warning", "--interface"}) {
    const std::string value = option == "--compression" ? "fp16" : option == "--collective" ? "ring" : "4";
    EXPECT_EQ(run(lenet({option, value})).err,
              "gemel: " + option + ": it is given without --parallel, where one device computes; accepted: with --parallel ddp\n");
  }
  for (const std::string option : {"--heartbeat", "--stall-warning", "--interface"})
    EXPECT_EQ(run(lenet({"--parallel", "mirrored", option, "4"})).err,
              "gemel: " + option + ": it is given with --parallel mirrored, where one process has no others to watch; accepted: with --parallel ddp\n");
  for (const std::string option : {"--bucket-mb", "--first-bucket-mb", "--compression", "--sync-bn"}) {
    const Outcome o = run({"eval", "--parallel", "ddp", option, "4"});
    EXPECT_EQ(o.status, 2);
    EXPECT_NE(o.err.find("option '" + option + "' is unknown"), std::string::npos) << o.err;
  }
}

TEST_F(Job, that_cannot_run_is_refused_in_one_line) {
  launcher_.clear();
  const Outcome alone = run(lenet({"--parallel", "ddp"}));
  EXPECT_EQ(alone.status, 2);
  EXPECT_EQ(alone.err, "gemel: --parallel ddp: mpirun did not start this process; accepted: gemel launch --np 2 train --parallel ddp ...\n");
  EXPECT_EQ(run({"launch", "train"}).err, "gemel: launch: --np is missing; accepted: gemel launch --np 2 train --parallel ddp ...\n");
  expect_refused_on(3, {"train", "--model", "lenet", "--parallel", "ddp", "--batch-size", "2"},
                    "--batch-size: 2 samples are for 3 ranks; accepted: one a rank or more");
  expect_refused_on(3, {"train", "--model", "lenet", "--parallel", "ddp", "--limit", "2"}, "train: 3 ranks share 2 samples; accepted: one a rank or more");
  expect_refused_on(2, {"train", "--parallel", "ddp", "--compression", "topk:2"},
                    "--compression: 'topk:2'; accepted: none, fp16, bf16, or topk:F with F above 0 and at most 1");
  expect_refused_on(2, {"train", "--parallel", "hovorod"},
                    "--parallel: 'hovorod' is not accepted, did you mean 'horovod'?; accepted: ddp, horovod, pipeline, ps, mirrored, dataparallel");
  expect_refused_on(2, {"train", "--parallel", "horovod", "--compression", "topk:0.1"},
                    "--compression: 'topk:0.1' is given with --parallel horovod; accepted: none, fp16, bf16");
  expect_refused_on(
      2, {"train", "--parallel", "horovod", "--bucket-mb", "1"},
      "--bucket-mb: it is given with --parallel horovod, which fuses what is there in a cycle; accepted: HOROVOD_FUSION_THRESHOLD and HOROVOD_CYCLE_TIME");
}

}  // namespace
}  // namespace gemel::testing
