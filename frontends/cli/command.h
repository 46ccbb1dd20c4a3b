// The program's commands. Each returns its exit status: 0 done, 1 failed; wrong usage is thrown.
#pragma once
#include <string>
#include <vector>

namespace gemel::cli {

using Arguments = std::vector<std::string>;

/// What the program ends with where it was used wrongly.
inline constexpr int kWrongUsage = 2;

int devices(const Arguments& arguments);
int summary(const Arguments& arguments);
int train(const Arguments& arguments);
int launch(const Arguments& arguments);
int eval(const Arguments& arguments);
int infer(const Arguments& arguments);
int generate(const Arguments& arguments);
int bench(const Arguments& arguments);
int tune(const Arguments& arguments);
int tokenize(const Arguments& arguments);
int ops(const Arguments& arguments);
int doctor(const Arguments& arguments);

}  // namespace gemel::cli
