#include "engine/base/error.h"

#include <filesystem>
#include <new>
#include <system_error>

namespace gemel {
namespace {

std::string without_nul(std::string text) {
  for (auto at = text.find('\0'); at != std::string::npos; at = text.find('\0', at)) text.replace(at, 1, "\\x00");
  return text;
}

}  // namespace

Error::Error(const std::string& text) : std::runtime_error(without_nul(text)) {}

std::string worded(const std::exception& error) {
  if (dynamic_cast<const Error*>(&error)) return error.what();
  if (dynamic_cast<const std::bad_alloc*>(&error))
    return "out of memory on the host: more was asked for than this computer has, or a limit (ulimit -v) leaves; accepted: a smaller batch, input or model";
  if (const auto* files = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    if (files->path1().empty()) return "files: a call failed: " + files->code().message();
    const std::string second = files->path2().empty() ? "" : " and " + files->path2().string();
    return "files: cannot use " + files->path1().string() + second + ": " + files->code().message();
  }
  if (dynamic_cast<const std::system_error*>(&error)) return std::string("system: ") + error.what();  // what was done, and the system's message
  return std::string("internal error: a library threw what nothing expects ('") + error.what() + "'); please report it";
}

}  // namespace gemel
