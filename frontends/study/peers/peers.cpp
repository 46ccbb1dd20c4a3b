#include "frontends/study/peers/peers.h"

#include <fmt/format.h>

#include <sstream>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "frontends/study/peers/peer_texts.h"
#include "frontends/study/runner/program_output.h"

namespace gemel::study {
namespace {

namespace fs = std::filesystem;

fs::path python_of(const fs::path& environment) { return environment / "bin" / "python"; }

}  // namespace

std::vector<std::string> peer_words(const StudyOptions& options, const Json& spec, const fs::path& file, const fs::path& out) {
  const fs::path program = peers_folder() / (spec["peer"].get<std::string>() + "_peer.py");
  std::vector<std::string> words{python_of(options.peers).string(), program.string()};
  if (file.empty()) return words;
  words.insert(words.end(), {"--spec", file.string(), "--out", out.string()});
  return words;
}

Json spec_for_peer(const Case& c, Json whole, const StudyOptions& options) {
  whole["mode"] = kPeerModes[0];
  whole.update(c.spec);
  if (!c.spec.contains("seed")) whole.erase("seed");  // which differs from block to block
  if (!options.platform.empty()) whole["platform"] = options.platform;
  if (!options.device.empty() && whole["device"] == "") whole["device"] = options.device;
  if (whole.value("dataset", "") == "cifar10") {
    if (whole["input"] == "") whole["input"] = "3x32x32";
    if (whole["classes"] == 0) whole["classes"] = 10;
  }
  if (takes_texts(whole) && c.spec.value("classes", 0) == 0) whole["classes"] = 2;  // as GLUE's tasks have, and texts that are made up
  return whole;
}

void require_peers(const StudyOptions& options) {
  if (!options.peers.empty() && !is_there(python_of(options.peers)))
    throw UsageError(fmt::format("--peers: {} is not there; accepted: a virtual environment of Python, or --install-peers to make it one",
                                 python_of(options.peers).string()));
}

void install_peers(const StudyOptions& options) {
  const fs::path log = options.peers / "gemel-install";
  const auto run = [&](std::vector<std::string> words) {
    const ChildResult ended = study::run({.words = std::move(words), .output = log / "stdout", .errors = log / "stderr", .tick = [&](auto...) {
                                            if (options.interrupted()) throw DataError("study: interrupted");
                                          }});
    ProcessRecord out;
    take_status(out, ended, log / "stderr", true);
    return out.status == "ok" ? "" : out.reason;
  };
  fs::create_directories(log);
  if (!is_there(python_of(options.peers)))
    if (const std::string reason = run({"python3", "-m", "venv", options.peers.string()}); !reason.empty())
      throw DataError(fmt::format("--install-peers: {} does not become an environment: {}; accepted: a folder that can be written, and Python's venv",
                                  options.peers.string(), reason));
  std::istringstream lines(text_of(peers_folder() / "requirements.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    options.say(fmt::format("--install-peers: {}", line));
    const std::string reason = run({python_of(options.peers).string(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", line});
    if (!reason.empty()) options.say(fmt::format("  cannot be installed: {}", reason));
  }
  fs::remove_all(log);
}

}  // namespace gemel::study
