#include "opencl/memory/large_pages.h"

#include <sys/mman.h>

#include <cstdlib>
#include <memory>

#include "engine/base/numbers.h"

namespace gemel::opencl {
namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

}  // namespace

cl_int allocate_on_host(cl_context context, std::int64_t bytes, std::int64_t alignment, Block& block) {
  const bool is_large = bytes >= kLargePage;
  if (is_large) alignment = kLargePage;
  std::unique_ptr<void, Free> memory(std::aligned_alloc(at(alignment), at(round_up(bytes, alignment))));
  if (!memory) return CL_MEM_OBJECT_ALLOCATION_FAILURE;
#ifdef MADV_HUGEPAGE
  if (is_large) madvise(memory.get(), at(bytes / kLargePage * kLargePage), MADV_HUGEPAGE);  // advice: where it is refused, pages stay small
#endif
  cl_int code = CL_SUCCESS;
  MemoryHandle buffer(clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, at(bytes), memory.get(), &code));
  if (code != CL_SUCCESS) return code;
  code = clSetMemObjectDestructorCallback(
      buffer.get(), [](cl_mem, void* host) { std::free(host); }, memory.get());
  if (code != CL_SUCCESS) return code;
  block.host = static_cast<std::byte*>(memory.release());
  block.memory = std::move(buffer);
  return code;
}

}  // namespace gemel::opencl
