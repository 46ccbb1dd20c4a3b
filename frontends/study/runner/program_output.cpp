#include "frontends/study/runner/program_output.h"

#include <fmt/format.h>

#include <sstream>

#include "engine/base/files/file.h"

namespace gemel::study {

std::string text_of(const std::filesystem::path& file) { return is_there(file) ? std::string(as_text(read_whole(file))) : ""; }

std::string last_line(const std::string& text) {
  std::istringstream in(text);
  std::string out;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) out = line;
  return out;
}

std::string device_type(const Json& machine) {
  const Json device = machine.is_object() ? machine.value("device", Json()) : Json();
  return device.is_object() ? device.value("type", "") : device.is_string() ? device.get<std::string>() : "";  // a peer says where it is alone
}

std::vector<std::string> command_words(const Json& spec) {
  std::vector<std::string> out;
  std::istringstream command(spec["command"].get<std::string>());
  for (std::string word; command >> word;) out.push_back(word);
  return out;
}

void take_status(ProcessRecord& out, const ChildResult& ended, const std::filesystem::path& errors, bool has_result) {
  const std::string said = last_line(text_of(errors));
  if (ended.timed_out) {
    out.status = "timeout";
    out.reason = fmt::format("it ran for more than {:.0f} s", ended.seconds);
  } else if (ended.status != 0 || !has_result) {
    const bool has_no_room = said.find("memory") != std::string::npos && said.find("accepted:") != std::string::npos;
    // What is asked for is not there: a file, which the run could not open, or a device; of a peer, whatever it says it has not.
    const auto says = [&](const char* text) { return said.find(text) != std::string::npos; };
    const bool is_missing =
        (ended.status == 2 && (out.peer() != kGemel || says("device") || says("platform"))) || says("No such file or directory") || says("does not exist");
    out.status = has_no_room ? "does-not-fit" : is_missing ? "missing" : "failed";
    out.reason = said.empty() ? fmt::format("it ended with status {}", ended.status) : said;
  } else {
    out.status = "ok";
  }
}

}  // namespace gemel::study
