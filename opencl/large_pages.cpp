#include "opencl/large_pages.h"

#include <sys/mman.h>

#include <cstdlib>
#include <memory>

#include "engine/base/span.h"

namespace gemel::opencl {
namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

}  // namespace

cl_int allocate_in_large_pages(cl_context context, std::int64_t bytes, Block& block) {
  cl_int code = CL_SUCCESS;
  const auto by_driver = [&] {
    block.memory = MemoryHandle(clCreateBuffer(context, CL_MEM_READ_WRITE, at(bytes), nullptr, &code));
    return code;
  };
#ifdef MADV_HUGEPAGE
  if (bytes < kLargePage) return by_driver();
  std::unique_ptr<void, Free> memory(std::aligned_alloc(at(kLargePage), at(round_up(bytes, kLargePage))));
  if (!memory) return by_driver();
  madvise(memory.get(), at(bytes / kLargePage * kLargePage), MADV_HUGEPAGE);  // advice: where it is refused, pages stay small
  MemoryHandle buffer(clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, at(bytes), memory.get(), &code));
  if (code != CL_SUCCESS) return code;
  code = clSetMemObjectDestructorCallback(buffer.get(), [](cl_mem, void* host) { std::free(host); }, memory.get());
  if (code != CL_SUCCESS) return code;
  block.host = static_cast<std::byte*>(memory.release());
  block.memory = std::move(buffer);
  return code;
#else
  return by_driver();
#endif
}

}  // namespace gemel::opencl
