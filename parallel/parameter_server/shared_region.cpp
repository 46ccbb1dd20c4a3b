#include "parallel/parameter_server/shared_region.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "engine/base/numbers.h"

namespace gemel::parallel {
namespace {

/// @return empty where it cannot be mapped
HostBytes mapped(int descriptor, std::int64_t bytes) {
  void* const first = ::mmap(nullptr, at(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (first == MAP_FAILED) return {};
#ifdef MADV_HUGEPAGE
  ::madvise(first, at(bytes), MADV_HUGEPAGE);  // advice: where it is refused, pages stay small
#endif
  return {std::shared_ptr<std::byte>(static_cast<std::byte*>(first), [bytes](std::byte* p) { ::munmap(p, at(bytes)); }), bytes};
}

}  // namespace

std::unique_ptr<SharedRegion> SharedRegion::make(std::int64_t bytes) {
  bytes = ceil_div(std::max<std::int64_t>(bytes, 1), kHostPage) * kHostPage;
  Descriptor file(::memfd_create("gemel", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0 || ::ftruncate(file.get(), bytes) != 0 || ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) return nullptr;
  HostBytes memory = mapped(file.get(), bytes);
  if (!memory.first) return nullptr;
#ifdef MADV_POPULATE_WRITE
  ::madvise(memory.first.get(), at(bytes), MADV_POPULATE_WRITE);  // as advised, in large pages, which posix_fallocate does not make
#endif
  if (::posix_fallocate(file.get(), 0, bytes) != 0) return nullptr;
  return std::unique_ptr<SharedRegion>(new SharedRegion(std::move(file), std::move(memory)));
}

SharedRegion::Place SharedRegion::place() const { return {::getpid(), file_.get(), memory_.bytes}; }

HostBytes see_region(const SharedRegion::Place& place, std::span<const std::byte> nonce) {
  if (place.process <= 0 || place.descriptor < 0 || place.bytes < std::ssize(nonce)) return {};
  const Descriptor file(::open(fmt::format("/proc/{}/fd/{}", place.process, place.descriptor).c_str(), O_RDWR | O_CLOEXEC));
  struct stat found {};
  if (file.get() < 0 || ::fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode) || found.st_size != place.bytes) return {};
  if (const int seals = ::fcntl(file.get(), F_GET_SEALS); seals < 0 || (seals & F_SEAL_SHRINK) == 0) return {};
  HostBytes memory = mapped(file.get(), place.bytes);
  if (!memory.first || !std::ranges::equal(nonce, std::span(memory.first.get(), at(memory.bytes)).last(nonce.size()))) return {};
  return memory;
}

}  // namespace gemel::parallel
