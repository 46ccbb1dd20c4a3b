// A full disk without a disk: a bound on the size of files.
#pragma once
#include <signal.h>
#include <sys/resource.h>

#include <cstddef>

namespace gemel::testing {

/// No file grows further while it lives, as on a full disk.
class FilesUpTo {
 public:
  explicit FilesUpTo(std::size_t bytes) : signal_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FilesUpTo() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, signal_);
  }
  FilesUpTo(const FilesUpTo&) = delete;
  FilesUpTo& operator=(const FilesUpTo&) = delete;

 private:
  void (*signal_)(int);
  rlimit before_{};
};

}  // namespace gemel::testing
