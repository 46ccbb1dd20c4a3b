#include "opencl/memory/host_memory.h"

#include <fmt/format.h>

#include <bit>
#include <memory>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel::opencl {

void check_takes(const HostBytes& memory, std::int64_t bytes, std::string_view what) {
  if (!memory.first) throw UsageError(fmt::format("host memory: none is given for {}; accepted: {} bytes or more", what, bytes));
  if (const auto behind = std::bit_cast<std::uintptr_t>(memory.first.get()) % kHostPage)
    throw UsageError(fmt::format("host memory: that for {} begins {} bytes behind a page; accepted: an address that {} divides", what, behind, kHostPage));
  if (memory.bytes < bytes) throw UsageError(fmt::format("host memory: {} bytes are given for {}; accepted: {} or more", memory.bytes, what, bytes));
}

cl_int create_over(cl_context context, const HostBytes& memory, std::int64_t bytes, Block& block) {
  using Owner = std::shared_ptr<std::byte>;
  cl_int code = CL_SUCCESS;
  auto owner = std::make_unique<Owner>(memory.first);
  MemoryHandle buffer(clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, at(bytes), owner->get(), &code));
  if (code != CL_SUCCESS) return code;
  code = clSetMemObjectDestructorCallback(
      buffer.get(), [](cl_mem, void* kept) { std::unique_ptr<Owner>(static_cast<Owner*>(kept)).reset(); }, owner.get());
  if (code != CL_SUCCESS) return code;
  block.host = owner.release()->get();
  block.is_the_callers = true;
  block.memory = std::move(buffer);
  return code;
}

}  // namespace gemel::opencl
