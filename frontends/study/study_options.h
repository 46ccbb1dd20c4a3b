// StudyOptions: how a study is run.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace gemel::study {

struct StudyOptions {
  std::filesystem::path program;  // gemel
  std::filesystem::path folder;   // of the study's results
  std::string platform, device;   // of every case that names no device itself; empty: the program's choice
  std::filesystem::path data;     // what "{data}" stands for in specs
  double budget_s = 0;            // 0: none
  std::uint64_t seed = 1;
  bool resume = false;
  std::function<void(const std::string& line)> say;
  std::function<bool()> interrupted = [] { return false; };
};

}  // namespace gemel::study
