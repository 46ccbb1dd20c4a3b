// Outputs that would replace what the same command uses.
#pragma once
#include <boost/program_options.hpp>

namespace gemel::cli {

/// Of the options that name files: an output is no other output, no input, none of the files in --data, and neither a log nor a checkpoint of the
/// run. Weights may be replaced by those that are trained from them: they are read whole before, and written whole after.
/// @throws UsageError naming both options
void check_outputs_apart(const boost::program_options::variables_map& values);

}  // namespace gemel::cli
