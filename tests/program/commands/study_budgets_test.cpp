// gemel study: each study that comes with it, within a budget, on made-up data.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "datasets/pictures/cifar10.h"
#include "frontends/study/study.h"
#include "tests/support/datasets/texts_folder.h"
#include "tests/support/device/test_device.h"
#include "tests/support/program/command_line_fixture.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const fs::path& file : study::study_files()) out.push_back(file.stem().string());
  return out;
}

class StudyBudgets : public CommandLine, public ::testing::WithParamInterface<std::string> {
 protected:
  /// CIFAR-10 of black pictures, which are holes, and SST-2 with a vocabulary as long as BERT's.
  std::string data() {
    const fs::path data = folder() / "data";
    for (const char* name : {"cifar10", "sst2", "bert-base-uncased"}) fs::create_directories(data / name);
    for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}) {
      write_text(data / "cifar10" / name, "");
      fs::resize_file(data / "cifar10" / name, datasets::Cifar10Dataset::kFileBytes);
    }
    write_texts(data / "sst2");
    constexpr int kBertWords = 30522, kWritten = 19;
    std::string vocabulary = read_text(data / "sst2/vocab.txt");
    for (int word = kWritten; word < kBertWords; ++word) vocabulary += fmt::format("word{}\n", word);
    write_text(data / "bert-base-uncased/vocab.txt", vocabulary);
    return data.string();
  }
};

TEST_P(StudyBudgets, is_kept_and_its_report_says_what_did_not_run) {
  const double minutes = is_full_run() ? 0.3 : 0.02;
  const auto begin = std::chrono::steady_clock::now();
  const Outcome o = run({"study", "run", GetParam(), "--quick", "--budget", fmt::format("{}", minutes), "--data", data(), "--out", in_folder("r")});
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(o.status, 0) << o.err;
  // Beside the budget: looking at each case's spec before, the report behind, and the end of a process that is stopped.
  EXPECT_LT(elapsed.count(), 60 * minutes + 60);

  std::map<std::string, Json> runs;
  for (const std::string& line : lines_of(read_text(folder() / "r/runs.jsonl"))) {
    const Json one = Json::parse(line);
    runs[one["case"]] = one;
    const std::string status = one["status"];
    EXPECT_TRUE(status == "ok" || status == "does-not-fit" || status == "missing") << one["case"] << ": " << status << ": " << one["reason"];
  }
  if (is_full_run()) {
    EXPECT_TRUE(std::ranges::any_of(runs, [](const auto& run) { return run.second["status"] == "ok"; })) << "nothing was measured";
  }
  const std::string report = read_text(folder() / "r/report.md");
  EXPECT_NE(report.find("Measured: "), std::string::npos) << report;
  const study::Study quick = study::without_peers(study::read_study(study::find_study(GetParam()), study::Extent::quick));
  std::string gaps;
  for (const std::string& line : lines_of(report))
    if (line.ends_with(": not run: the budget ended before")) gaps = ", " + line.substr(2, line.find(": not run") - 2) + ", ";
  for (const study::Case& c : quick.cases) {
    if (!runs.contains(c.name)) {
      EXPECT_NE(gaps.find(", " + c.name + ", "), std::string::npos) << c.name << " is no gap of " << gaps;
    }
  }
  for (const study::Table& table : quick.tables) EXPECT_TRUE(fs::exists(folder() / "r/tables" / (table.name + ".csv"))) << table.name;
  EXPECT_EQ(Json::parse(read_text(folder() / "r/results.json"))["tests"].size(), quick.hypotheses.size());
  EXPECT_TRUE(read_text(folder() / "r/report.html").ends_with("</html>\n"));
}

INSTANTIATE_TEST_SUITE_P(Studies, StudyBudgets, ::testing::ValuesIn(names()), [](const auto& study) {
  std::string name = study.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace gemel::testing
