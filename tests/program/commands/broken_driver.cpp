// A driver of OpenCL that ends or holds up whoever loads it, as GEMEL_TEST_DRIVER says.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

namespace {

const bool loaded = [] {
  const char* how = std::getenv("GEMEL_TEST_DRIVER");
  const auto is = [how](const char* word) { return how && std::strcmp(how, word) == 0; };
  if (is("aborts")) std::abort();
  if (is("crashes")) ::raise(SIGSEGV);
  if (is("exits")) ::_exit(3);
  if (is("hangs")) ::sleep(3600);
  if (is("crashes at the end")) std::atexit([] { ::raise(SIGSEGV); });
  return true;
}();

}  // namespace
