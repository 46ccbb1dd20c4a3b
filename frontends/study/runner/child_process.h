// A process that the study starts and waits for.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace gemel::study {

struct ChildResult {
  int status = 0;  // as a shell has it: 128 and more for a signal
  bool timed_out = false;
  double seconds = 0;            // wall time
  double processor_seconds = 0;  // of it and all that it waited for
};

struct Child {
  std::vector<std::string> words;  // the program's path first
  std::filesystem::path output, errors;
  double timeout_s = 0;
  std::vector<int> processors = {};  // that it may run on; empty: as this process
  /// Called some times a second while it runs; what it throws ends the child and is thrown on.
  std::function<void(pid_t)> tick = [](pid_t) {};
};

/// Runs it in a process group of its own, which gets SIGTERM and then SIGKILL after the timeout.
/// @throws DataError where no process can be made; a program that is not there ends with status 127
ChildResult run(const Child& child);

}  // namespace gemel::study
