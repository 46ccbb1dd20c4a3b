// Graph passes: each takes a program and gives one that computes the same with less work or memory. One file a pass.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/capture/program.h"

namespace gemel {

/// How far a pass may change the last bit: `exact` passes never do.
enum class Rounding { exact, may_differ };

struct Pass {
  std::string_view name, doc;
  Rounding rounding;
  Program (*run)(Session&, Program);
};

/// All passes in the order in which they run.
std::span<const Pass> passes();

/// Names of passes to run. "all", "none", or names separated by commas.
using PassNames = std::vector<std::string>;
/// @throws UsageError for an unknown name: lists those there are
PassNames parse_passes(std::string_view text);

/// What one pass did.
struct PassReport {
  std::string name;
  std::size_t instructions_before = 0, instructions_after = 0;
  double milliseconds = 0;
};

/// Runs the named passes in their order; each result is verified.
Program optimise(Session& session, Program program, const PassNames& names, std::vector<PassReport>* report = nullptr);

// One file each.
Program eliminate_dead_code(Session& session, Program program);
Program merge_common_subexpressions(Session& session, Program program);
Program fold_constants(Session& session, Program program);
Program simplify(Session& session, Program program);
Program decompose(Session& session, Program program);
Program rematerialise(Session& session, Program program);
Program fuse_elementwise(Session& session, Program program);
Program fuse_epilogues(Session& session, Program program);
Program view_parts(Session& session, Program program);

}  // namespace gemel
