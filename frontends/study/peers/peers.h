// Peers: other frameworks, whose programs lie in studies/peers and run in a virtual environment of Python.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "frontends/study/runner/study_options.h"
#include "frontends/study/study.h"

namespace gemel::study {

/// The command line by which a peer's program runs the spec of a file and writes what it leaves to `out`; without a file: by which it imports the framework.
std::vector<std::string> peer_words(const StudyOptions& options, const Json& spec, const std::filesystem::path& file, const std::filesystem::path& out);
/// A peer's case with every key, since its program knows no defaults. @param whole  of Gemel's, with every key
Json spec_for_peer(const Case& c, Json whole, const StudyOptions& options);
/// @throws UsageError where the environment of peers has no Python
void require_peers(const StudyOptions& options);
/// Makes the environment of peers, and installs each package of studies/peers/requirements.txt there that can be; of the others it says why not.
/// @throws DataError where no environment can be made
void install_peers(const StudyOptions& options);

}  // namespace gemel::study
