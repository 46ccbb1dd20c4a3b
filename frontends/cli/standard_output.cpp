#include "frontends/cli/standard_output.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "frontends/cli/options/arguments.h"

namespace gemel::cli {

namespace {

/// The number of a closed standard stream would go to the next file that is opened, and what is printed into that file.
void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) == -1 && ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) != stream)
      throw DataError("open: cannot keep a place for a standard stream that is closed");
}

}  // namespace

int run_and_print(const std::function<int()>& body) {
  keep_standard_streams();
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error like a full disk, and no end by signal
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
