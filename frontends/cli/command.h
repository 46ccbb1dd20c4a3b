// The program's commands. Each returns its exit status, 0 for success and 1 for a failure, and throws UsageError for wrong usage.
#pragma once
#include <string>
#include <vector>

namespace gemel::cli {

using Arguments = std::vector<std::string>;

/// The program's exit status for wrong usage.
inline constexpr int kWrongUsage = 2;

int devices(const Arguments& arguments);
int summary(const Arguments& arguments);
int train(const Arguments& arguments);
int launch(const Arguments& arguments);
int eval(const Arguments& arguments);
int infer(const Arguments& arguments);
int generate(const Arguments& arguments);
int bench(const Arguments& arguments);
int roofline(const Arguments& arguments);
int tune(const Arguments& arguments);
int tokenize(const Arguments& arguments);
int ops(const Arguments& arguments);
int study(const Arguments& arguments);
int monitor(const Arguments& arguments);
int doctor(const Arguments& arguments);

}  // namespace gemel::cli
