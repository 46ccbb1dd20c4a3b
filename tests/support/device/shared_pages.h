// Memory that the host sees at two addresses, as two processes that share it do.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>

#include "engine/base/host_view.h"
#include "engine/base/numbers.h"

namespace gemel::testing {

class SharedPages {
 public:
  explicit SharedPages(std::int64_t bytes) : bytes_(bytes) {
    const int file = memfd_create("gemel test", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, bytes) != 0) throw std::runtime_error("memfd_create");
    for (auto* mapping : {&first_, &second_}) {
      void* pages = mmap(nullptr, at(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (pages == MAP_FAILED) throw std::runtime_error("mmap");
      *mapping = {static_cast<std::byte*>(pages), [bytes](std::byte* begin) { munmap(begin, at(bytes)); }};
    }
    close(file);
  }
  /// What a device is given.
  HostBytes given() const { return {first_, bytes_}; }
  /// The same bytes, as another process has them.
  std::span<std::byte> seen() const { return {second_.get(), at(bytes_)}; }

 private:
  std::int64_t bytes_;
  std::shared_ptr<std::byte> first_, second_;
};

}  // namespace gemel::testing
