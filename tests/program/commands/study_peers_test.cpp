// gemel study with peers: made-up ones that agree, disagree, are not there and crash; and what is refused.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <span>

#include "datasets/loading/data_loader.h"
#include "frontends/study/study.h"
#include "tests/support/program/study_peers_fixture.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;

TEST_F(StudyPeers, are_shown_where_they_agree_and_are_gaps_with_their_reasons_elsewhere) {
  const std::string study = file(std::string(kPyTorch) + R"(
  { name = "tensorflow best", peer = "tensorflow", mode = "best" },
  { name = "onnxruntime", peer = "onnxruntime" },
  { name = "openvino", peer = "openvino" },
)");
  const Outcome o = run(with_peers(study));
  ASSERT_EQ(o.status, 0) << o.err << "peers never change the status";
  auto all = runs();
  for (const char* work : {"train/", "infer/"}) {
    const std::string name(work);
    ASSERT_EQ(all[name + "eager"].size(), 2u);
    ASSERT_EQ(all[name + "pytorch"].size(), 2u) << o.err;
    const Json& agrees = all[name + "pytorch"][0];
    EXPECT_EQ(agrees["status"], "ok") << agrees["reason"];
    EXPECT_EQ(agrees["peer"], "pytorch");
    EXPECT_EQ(agrees["mode"], "default");
    EXPECT_EQ(agrees["metrics"]["ms"], 1.0);
    EXPECT_EQ(agrees["metrics"]["samples_per_s"], 2000.0);
    EXPECT_EQ(agrees["machine"]["version"]["pytorch"], "1.0");
    EXPECT_EQ(agrees["agreement"]["outputs"], 0.0);
    EXPECT_EQ(agrees["agreement"].contains("losses"), name == "train/");
    for (const char* peer : {"tensorflow best", "onnxruntime", "openvino"}) EXPECT_EQ(all[name + peer].size(), 1u) << peer << " is not tried again";
    const Json& disagrees = all[name + "tensorflow best"][0];
    EXPECT_EQ(disagrees["status"], "failed");
    EXPECT_EQ(disagrees["mode"], "best");
    const bool has_nan = name == "infer/";
    EXPECT_TRUE(disagrees["reason"].get<std::string>().starts_with(has_nan ? "it disagrees with Gemel: it left no outputs that are numbers"
                                                                           : "it disagrees with Gemel: outputs by 0.01 of the largest, losses by 0, "))
        << disagrees["reason"];
    if (!has_nan) {
      EXPECT_NEAR(disagrees["agreement"]["outputs"].get<double>(), 0.01, 1e-6);
    }
    EXPECT_EQ(all[name + "openvino"][0]["status"], "failed");
    EXPECT_EQ(all[name + "openvino"][0]["reason"], "it ended with status 139");
  }
  EXPECT_EQ(all["infer/onnxruntime"][0]["status"], "missing");
  EXPECT_EQ(all["infer/onnxruntime"][0]["reason"], "onnxruntime: No module named 'onnxruntime'");
  EXPECT_EQ(all["train/onnxruntime"][0]["reason"], all["infer/onnxruntime"][0]["reason"]);
  EXPECT_EQ(calls("onnxruntime_peer.py"), 1) << "it is asked once";
  const std::string report = read_text(folder() / "r/report.md");
  EXPECT_NE(report.find("| work | eager | pytorch | tensorflow best | onnxruntime | openvino |"), std::string::npos) << report;
  EXPECT_NE(report.find("| train/pytorch | 0.0e+00 | 0.0e+00 | "), std::string::npos) << report;
  EXPECT_EQ(Json::parse(read_text(folder() / "r/results.json"))["agreements"].size(), 3u);
  EXPECT_FALSE(fs::exists(folder() / "r/start")) << "weights are not kept";
}

TEST_F(StudyPeers, are_checked_once_a_case_and_again_by_a_study_that_goes_on) {
  const std::string study = file(kPyTorch);
  ASSERT_EQ(run(with_peers(study)).status, 0);
  EXPECT_EQ(calls("pytorch_peer.py --check"), 2) << "one a case";
  EXPECT_EQ(calls("pytorch_peer.py"), 4);
  const std::string text = read_text(study);
  std::ofstream(study) << std::regex_replace(text, std::regex("most_repeats = 2"), "most_repeats = 3");
  ASSERT_EQ(run(joined(with_peers(study), {"--resume"})).status, 0);
  EXPECT_EQ(calls("pytorch_peer.py --check"), 4) << "what they start from is made anew";
  EXPECT_EQ(calls("pytorch_peer.py"), 6);
}

TEST_F(StudyPeers, have_texts_as_gemel_tokenizes_and_pads_them) {
  const std::string study = file_of_texts(kPyTorch);
  ASSERT_EQ(run(joined(with_peers(study), {"--data", in_folder("data")})).status, 0);
  const Json all = runs()["pytorch"];
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(all[0]["status"], "ok") << all[0]["reason"];
  EXPECT_EQ(all[0]["agreement"]["losses"], 0.0);
  EXPECT_EQ(all[0]["metrics"]["last_epoch.val_f1"], 0.5);
  using Numbers = std::vector<std::int64_t>;
  const fs::path texts = folder() / "env/bin/texts";
  EXPECT_EQ(array(texts / "ids.npy"), (Numbers{2, 5, 6, 3, 7, 3, 2, 8, 3, 6, 3, 0, 2, 5, 3, 5, 6, 3}));
  EXPECT_EQ(array(texts / "types.npy"), (Numbers{0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(array(texts / "labels.npy"), (Numbers{1, 0, 1}));
  EXPECT_EQ(array(texts / "val_labels.npy"), (Numbers{1, 0, 1}));
}

TEST_F(StudyPeers, start_from_the_weights_that_a_case_names) {
  const std::string study = file_of_texts("  { name = \"pytorch\", peer = \"pytorch\", weights = \"{data}/bert.safetensors\" },\n");
  const Outcome made = run({"train",
                            "--model",
                            "bert",
                            "--config",
                            "tiny",
                            "--dataset",
                            "mrpc",
                            "--data",
                            in_folder("data/mrpc"),
                            "--vocab",
                            in_folder("data/vocab.txt"),
                            "--max-length",
                            "16",
                            "--batch-size",
                            "2",
                            "--steps",
                            "1",
                            "--seed",
                            "7",
                            "--save",
                            in_folder("data/bert.safetensors")});
  ASSERT_EQ(made.status, 0) << made.err;
  ASSERT_EQ(run(joined(with_peers(study), {"--data", in_folder("data")})).status, 0);
  const Json all = runs()["pytorch"];
  ASSERT_EQ(all[0]["status"], "ok") << all[0]["reason"];
  EXPECT_TRUE(read_text(folder() / "env/bin/weights.safetensors") == read_text(folder() / "data/bert.safetensors"));
}

TEST_F(StudyPeers, that_lack_their_texts_are_gaps) {
  const std::string study = file_of_texts(std::string("  { name = \"eager\", vocab = \"\", dataset = \"synthetic\", data = \"\" },\n") + kPyTorch);
  ASSERT_EQ(run(joined(with_peers(study), {"--data", in_folder("none")})).status, 0);
  auto all = runs();
  EXPECT_EQ(all["eager"][0]["status"], "ok") << all["eager"][0]["reason"];
  EXPECT_EQ(all["pytorch"][0]["status"], "missing");
  EXPECT_TRUE(all["pytorch"][0]["reason"].get<std::string>().find(" is not there") != std::string::npos) << all["pytorch"][0]["reason"];
}

TEST_F(StudyPeers, are_left_out_of_a_study_that_names_no_environment) {
  const std::string study = file(kPyTorch, R"(
[[hypothesis]]
name = "peer"
claim = "PyTorch is faster."
source = "nobody"
a = { framework = "pytorch" }
b = { framework = "eager" }
expected = "below 1"
[[table]]
name = "peers"
caption = "Peers alone"
rows = ["work"]
where = { framework = "pytorch" }
)");
  const Outcome o = run({"study", "run", study, "--out", in_folder("r")});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(runs().size(), 2u);
  EXPECT_EQ(o.out.find("PyTorch"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("Training takes longer."), std::string::npos) << o.out;
  const std::string report = read_text(folder() / "r/report.md");
  EXPECT_NE(report.find("| work | eager |\n"), std::string::npos) << report;
  EXPECT_EQ(report.find("Peers alone"), std::string::npos) << report;
  EXPECT_EQ(run({"study", "report", in_folder("r")}).status, 0);
  EXPECT_EQ(read_text(folder() / "r/report.md"), report);
}

TEST_F(StudyPeers, that_are_unknown_or_have_no_environment_are_refused) {
  const std::string unknown = file("  { name = \"a\", peer = \"pytroch\" },\n");
  expect_refused({"study", "show", unknown}, 2, "study: " + unknown + ":11: peer is 'pytroch'; accepted: pytorch, tensorflow, horovod, onnxruntime, openvino");
  const std::string mode = file("  { name = \"a\", peer = \"pytorch\", mode = \"fast\" },\n");
  expect_refused({"study", "show", mode}, 2, "study: " + mode + ":11: mode is 'fast'; accepted: default, best");
  const std::string study = file(kPyTorch);
  expect_refused({"study", "run", study, "--peers", in_folder("none"), "--out", in_folder("r")}, 2,
                 "--peers: " + in_folder("none/bin/python") + " is not there; accepted: a virtual environment of Python, or --install-peers to make it one");
  expect_refused({"study", "run", study, "--install-peers"}, 2, "--install-peers: --peers is missing; accepted: --peers FOLDER, where the environment is made");
}

/// A python3 whose venv has a pip that has no Horovod.
TEST_F(StudyPeers, are_installed_one_by_one_and_what_cannot_be_is_said) {
  fs::create_directories(folder() / "path");
  std::ofstream(folder() / "path/python3") << "#!/bin/sh\nmkdir -p \"$3/bin\"\ncat >\"$3/bin/python\" <<'E'\n#!/bin/sh\ncase \"$*\" in\n"
                                              "*horovod*) echo 'ERROR: No matching distribution found for horovod' >&2; exit 1;;\n*install*) echo \"$*\" "
                                              ">>\"${0%/bin/python}/had\";;\n*) exit 1;;\nesac\nE\nchmod +x \"$3/bin/python\"\n";
  fs::permissions(folder() / "path/python3", fs::perms::owner_all);
  const std::string study = file(kPyTorch);
  const Outcome o = run({"study", "run", study, "--out", in_folder("r"), "--peers", in_folder("made"), "--install-peers"},
                        [&] { ::setenv("PATH", (in_folder("path") + ":" + ::getenv("PATH")).c_str(), 1); });
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("cannot be installed: ERROR: No matching distribution found for horovod"), std::string::npos) << o.err;
  const std::string had = read_text(folder() / "made/had");
  for (const char* package : {"torch==", "tensorflow-cpu==", "onnxruntime==", "openvino=="}) EXPECT_NE(had.find(package), std::string::npos) << had;
}

TEST_F(StudyPeers, have_programs_and_versions_of_their_packages) {
  for (const char* peer : study::kPeers) EXPECT_TRUE(fs::exists(study::peers_folder() / (std::string(peer) + "_peer.py"))) << peer;
  int packages = 0;
  for (const std::string& line : lines_of(read_text(study::peers_folder() / "requirements.txt"))) {
    if (line.starts_with("#")) continue;
    EXPECT_TRUE(std::regex_match(line, std::regex("[a-z0-9_-]+==[0-9]+(\\.[0-9]+)+"))) << line;
    ++packages;
  }
  EXPECT_GE(packages, 8);
}

TEST_F(StudyPeers, shuffle_samples_as_gemel_does) {
  using Order = std::vector<std::uint32_t>;
  for (const auto& [size, seed] :
       std::vector<std::pair<std::int64_t, std::uint64_t>>{{1, 0}, {2, 1}, {7, 3}, {1000, 42}, {20011, (std::uint64_t{5} << 32) + 9}}) {
    const std::string code = fmt::format("import sys; sys.path.insert(0, '{}'); import sample_order; print(sample_order.permutation({}, {}))",
                                         study::peers_folder().string(), size, seed);
    ASSERT_EQ(std::system(fmt::format("python3 -S -c \"{}\" >{}", code, in_folder("order")).c_str()), 0);
    EXPECT_EQ(Json::parse(read_text(folder() / "order")).get<Order>(), datasets::permutation(size, seed)) << size;
  }
}

TEST_F(StudyPeers, train_in_gemels_order_and_time_a_step_from_the_end_of_the_one_before) {
  const Json spec{{"model", "m"}, {"batch-size", 4}, {"steps", 7}, {"epochs", 1}, {"eval-every", 0}, {"shuffle", "on"}, {"seed", 7}};
  const std::string program = GEMEL_SOURCE_DIR "/tests/data/peers/run_of_training.py";
  ASSERT_EQ(std::system(fmt::format("python3 -S {} {} '{}' 10 >{}", program, study::peers_folder().string(), spec.dump(), in_folder("made")).c_str()), 0);
  const Json made = Json::parse(read_text(folder() / "made"));
  std::vector<std::uint32_t> seen, expected;
  for (const Json& batch : made["batches"]) {
    const auto samples = batch.get<std::vector<std::uint32_t>>();
    seen.insert(seen.end(), samples.begin(), samples.end());
  }
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    const auto order = datasets::permutation(10, 7 + epoch);
    expected.insert(expected.end(), order.begin(), epoch < 2 ? order.end() : order.begin() + 4);
  }
  EXPECT_EQ(seen, expected) << "steps say how many epochs there are";
  EXPECT_EQ(made["samples_ms"], Json(std::vector<double>(7, 3000))) << "a batch and its update, without the order of an epoch";
  EXPECT_EQ(made["epochs"][0]["seconds"], 9.0);
  EXPECT_EQ(made["epochs"][2]["seconds"], 3.0);
}

TEST_F(StudyPeers, refuse_what_only_gemel_computes_in_every_training) {
  for (const char* command : {"bench train", "train"}) {
    const Json spec{{"peer", "pytorch"}, {"mode", "default"}, {"command", command}, {"model", "resnet18"}, {"batch-size", 4}, {"eval-every", 0}};
    const auto with = [&](const char* key, const Json& value) {
      Json out = spec;
      out[key] = value;
      return out;
    };
    EXPECT_EQ(refusal(with("accumulate", 4)), "pytorch: accumulate is 4; accepted: 1\n");
    EXPECT_EQ(refusal(with("recompute", "blocks")), "pytorch: recompute is blocks; accepted: none\n");
    EXPECT_EQ(refusal(with("freeze-norm", true)), "pytorch: freeze-norm is True; accepted: False\n");
    EXPECT_NE(refusal(spec).find("No module named"), std::string::npos);
  }
}

/// A case of a peer whose program refuses it is a gap in every study, and measures nothing.
TEST_F(StudyPeers, of_the_studies_have_what_their_cases_ask_for) {
  std::set<Json> seen;
  for (const fs::path& file : study::study_files()) {
    for (const study::Case& c : study::read_study(file, study::Extent::full).cases) {
      if (!c.is_of_peer()) continue;
      Json spec{{"mode", "default"}, {"eval-every", 1}};
      spec.update(c.spec);
      for (const char* key : {"model", "config", "data", "vocab", "dataset", "input", "limit", "lr", "epochs", "steps"})
        spec.erase(key);  // what Python's packages judge
      if (!seen.insert(spec).second) continue;
      spec["model"] = c.spec["model"];
      const std::string said = refusal(spec);
      EXPECT_NE(said.find("No module named"), std::string::npos) << file << ": " << c.name << ": " << said;
    }
  }
  EXPECT_GE(seen.size(), 10u);
}

}  // namespace
}  // namespace gemel::testing
