// Buffers of the stub driver.
#include <sys/mman.h>

#include "tests/support/stub_driver/stub_objects.h"

_cl_mem::~_cl_mem() {
  for (auto call = at_end.rbegin(); call != at_end.rend(); ++call) (*call)(this);
  if (is_own) ::munmap(data, bytes);
  if (parent) stub::release(parent);
}

namespace stub {
namespace {

std::atomic<std::int64_t> held = 0;  // bytes of all buffers

cl_mem create_buffer(cl_context, cl_mem_flags flags, std::size_t bytes, void* host, cl_int* code) {
  cl_int failed = failure("clCreateBuffer");
  const auto size = static_cast<std::int64_t>(bytes);
  if (failed == CL_SUCCESS && (size == 0 || size > facts().allocation)) failed = CL_INVALID_BUFFER_SIZE;
  if (failed == CL_SUCCESS && held + size > facts().memory) failed = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  auto* out = new _cl_mem;
  out->bytes = bytes;
  if (failed == CL_SUCCESS && (flags & CL_MEM_USE_HOST_PTR) != 0) {
    out->data = static_cast<char*>(host);
  } else if (failed == CL_SUCCESS) {
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
      failed = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    } else {
      out->data = static_cast<char*>(data);
      out->is_own = true;
      held += size;
      out->at_end.emplace_back([size](cl_mem) { held -= size; });
      if (host) std::memcpy(data, host, bytes);
    }
  }
  if (code) *code = failed;
  if (failed == CL_SUCCESS) return out;
  release(out);
  return nullptr;
}

cl_mem create_part(cl_mem whole, cl_mem_flags, cl_buffer_create_type, const void* what, cl_int* code) {
  const auto& region = *static_cast<const cl_buffer_region*>(what);
  cl_int failed = failure("clCreateSubBuffer");
  if (region.origin + region.size > whole->bytes) failed = CL_INVALID_VALUE;
  if (code) *code = failed;
  if (failed != CL_SUCCESS) return nullptr;
  auto* out = new _cl_mem;
  out->data = whole->data + region.origin;
  out->bytes = region.size;
  out->parent = whole;
  retain(whole);
  return out;
}

cl_int memory_info(cl_mem memory, cl_mem_info what, std::size_t room, void* to, std::size_t* needed) {
  switch (what) {
    case CL_MEM_SIZE:
      return give(memory->bytes, room, to, needed);
    case CL_MEM_TYPE:
      return give(cl_mem_object_type{CL_MEM_OBJECT_BUFFER}, room, to, needed);
    default:
      return CL_INVALID_VALUE;
  }
}

cl_int call_at_end(cl_mem memory, void (*call)(cl_mem, void*), void* with) {
  memory->at_end.emplace_back([call, with](cl_mem m) { call(m, with); });
  return CL_SUCCESS;
}

}  // namespace

void add_memory(cl_icd_dispatch& out) {
  out.clCreateBuffer = create_buffer;
  out.clCreateSubBuffer = create_part;
  out.clRetainMemObject = retain<_cl_mem>;
  out.clReleaseMemObject = release<_cl_mem>;
  out.clGetMemObjectInfo = memory_info;
  out.clSetMemObjectDestructorCallback = call_at_end;
}

}  // namespace stub
