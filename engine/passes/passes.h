// Graph passes: each transforms a program into one that computes the same with less work or memory. Each pass has a file.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/capture/program.h"

namespace gemel {

/// Whether a pass may change the last bit of a result. `exact` passes never do.
enum class Rounding { exact, may_differ };

struct Pass {
  std::string_view name, doc;
  Rounding rounding;
  Program (*run)(Session&, Program);
};

/// All passes, in the order in which they run.
std::span<const Pass> passes();

/// Names of passes to run.
using PassNames = std::vector<std::string>;
/// Parses "all", "none", or names separated by commas. @throws UsageError for an unknown name; lists the known ones
PassNames parse_passes(std::string_view text);

/// Effect of one pass.
struct PassReport {
  std::string name;
  std::size_t instructions_before = 0, instructions_after = 0;
  double milliseconds = 0;
};

/// Runs the named passes in the order of `passes` and verifies each result. @param report  receives an entry for each pass, or null
Program optimise(Session& session, Program program, const PassNames& names, std::vector<PassReport>* report = nullptr);

// The passes.
Program eliminate_dead_code(Session& session, Program program);
Program merge_common_subexpressions(Session& session, Program program);
Program fold_constants(Session& session, Program program);
Program simplify(Session& session, Program program);
Program decompose_batch_norm(Session& session, Program program);
Program rematerialise(Session& session, Program program);
Program fuse_elementwise(Session& session, Program program);
Program fuse_epilogues(Session& session, Program program);
Program view_parts(Session& session, Program program);

}  // namespace gemel
