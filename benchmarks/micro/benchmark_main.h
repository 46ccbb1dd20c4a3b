// What the main functions of the benchmark programs share.
#pragma once
#include <fmt/format.h>

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "frontends/cli/standard_output.h"

namespace gemel {

/// Runs a program on its arguments. @return its exit status: 0 after --help, 2 after wrong usage, 1 after another error, which is printed
inline int benchmark_main(const char* name, const std::function<int(const std::vector<std::string>&)>& run, int count, char** values) {
  try {
    return cli::run_and_print([&] { return run({values + 1, values + count}); });
  } catch (const UsageError& e) {
    fmt::print(stderr, "{}: {}\n", name, e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: {}\n", name, e.what());
    return 1;
  }
}

}  // namespace gemel
