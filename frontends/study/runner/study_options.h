// StudyOptions: how a study is run.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace gemel::study {

/// In the folder of the results: files of the program that runs, until the study ends.
inline constexpr const char* kLastRun = "last-run";

/// Thrown where `interrupted` says so while a program runs.
struct Interrupted {};

struct StudyOptions {
  std::filesystem::path program;  // gemel
  std::string version;            // its version and commit
  std::filesystem::path folder;   // of the study's results
  std::string platform, device;   // of every case that names no device itself; empty: the program's choice
  std::filesystem::path data;     // what "{data}" stands for in specs
  double budget_s = 0;            // 0: none
  std::uint64_t seed = 1;
  bool resume = false;
  std::filesystem::path peers;  // a virtual environment of Python that peers are run in; empty: the study has none
  std::function<void(const std::string& line)> say;
  std::function<bool()> interrupted = [] { return false; };
  /// @throws Interrupted
  void stop_if_interrupted() const {
    if (interrupted()) throw Interrupted();
  }
};

}  // namespace gemel::study
