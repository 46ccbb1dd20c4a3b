#include "frontends/cli/run_and_print.h"

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "engine/base/error.h"
#include "engine/base/file.h"
#include "frontends/cli/arguments.h"

namespace gemel::cli {

int run_and_print(const std::function<int()>& body) {
  const auto fail = [](int error) { throw DataError("write: cannot write standard output: " + system_message(error)); };
  int status = 0;
  try {
    status = body();
  } catch (const HelpWanted&) {
    // It is printed.
  } catch (const std::system_error& e) {
    if (std::ferror(stdout)) fail(e.code().value());
    throw;
  }
  if (std::fflush(stdout) != 0) fail(errno);
  if (std::ferror(stdout)) throw DataError("write: cannot write standard output: a part of it is lost");  // a flush before this one failed
  return status;
}

}  // namespace gemel::cli
