// Programs and kernels of the stub driver: every source compiles, and has each kernel that is asked for. A binary is the source.
#include <chrono>
#include <thread>

#include "tests/support/stub_driver/stub_objects.h"

namespace stub {
namespace {

cl_program create_program(cl_context, cl_uint count, const char** texts, const std::size_t* lengths, cl_int* code) {
  const cl_int failed = failure("clCreateProgramWithSource");
  if (code) *code = failed;
  if (failed != CL_SUCCESS) return nullptr;
  auto* out = new _cl_program;
  for (cl_uint i = 0; i < count; ++i) out->source += lengths && lengths[i] ? std::string(texts[i], lengths[i]) : std::string(texts[i]);
  return out;
}

cl_program program_of_binary(cl_context, cl_uint, const cl_device_id*, const std::size_t* lengths, const unsigned char** binaries, cl_int* status,
                             cl_int* code) {
  const cl_int failed = failure("clCreateProgramWithBinary");
  if (status) *status = failed;
  if (code) *code = failed;
  if (failed != CL_SUCCESS) return nullptr;
  auto* out = new _cl_program;
  out->source.assign(reinterpret_cast<const char*>(binaries[0]), lengths[0]);
  out->is_binary = true;
  return out;
}

cl_int build(cl_program program, cl_uint, const cl_device_id*, const char*, void (*)(cl_program, void*), void*) {
  if (!program->is_binary) std::this_thread::sleep_for(std::chrono::milliseconds(facts().build_ms));
  return failure("clBuildProgram");
}

cl_int program_info(cl_program program, cl_program_info what, std::size_t room, void* to, std::size_t* needed) {
  switch (what) {
    case CL_PROGRAM_NUM_DEVICES:
      return give(cl_uint{1}, room, to, needed);
    case CL_PROGRAM_DEVICES:
      return give(&device, room, to, needed);
    case CL_PROGRAM_BINARY_SIZES:
      return give(program->source.size(), room, to, needed);
    case CL_PROGRAM_BINARIES:
      if (needed) *needed = sizeof(void*);
      if (to) std::memcpy(*static_cast<void**>(to), program->source.data(), program->source.size());
      return CL_SUCCESS;
    default:
      return CL_INVALID_VALUE;
  }
}

cl_int build_info(cl_program, cl_device_id, cl_program_build_info what, std::size_t room, void* to, std::size_t* needed) {
  switch (what) {
    case CL_PROGRAM_BUILD_STATUS:
      return give(cl_build_status{CL_BUILD_SUCCESS}, room, to, needed);
    case CL_PROGRAM_BUILD_LOG:
      return give(std::string("stub: told to fail"), room, to, needed);
    default:
      return CL_INVALID_VALUE;
  }
}

cl_kernel create_kernel(cl_program, const char* name, cl_int* code) {
  const cl_int failed = failure("clCreateKernel");
  if (code) *code = failed;
  if (failed != CL_SUCCESS) return nullptr;
  auto* out = new _cl_kernel;
  out->name = name;
  return out;
}

cl_int kernel_group_info(cl_kernel, cl_device_id, cl_kernel_work_group_info what, std::size_t room, void* to, std::size_t* needed) {
  const std::size_t none[] = {0, 0, 0};
  switch (what) {
    case CL_KERNEL_COMPILE_WORK_GROUP_SIZE:
      return give_bytes(none, sizeof none, room, to, needed);
    case CL_KERNEL_WORK_GROUP_SIZE:
      return give(static_cast<std::size_t>(facts().group), room, to, needed);
    case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE:
      return give(static_cast<std::size_t>(facts().width), room, to, needed);
    case CL_KERNEL_LOCAL_MEM_SIZE:
    case CL_KERNEL_PRIVATE_MEM_SIZE:
      return give(cl_ulong{0}, room, to, needed);
    default:
      return CL_INVALID_VALUE;
  }
}

cl_int set_argument(cl_kernel, cl_uint, std::size_t, const void*) { return failure("clSetKernelArg"); }

}  // namespace

void add_programs(cl_icd_dispatch& out) {
  out.clCreateProgramWithSource = create_program;
  out.clCreateProgramWithBinary = program_of_binary;
  out.clRetainProgram = retain<_cl_program>;
  out.clReleaseProgram = release<_cl_program>;
  out.clBuildProgram = build;
  out.clGetProgramInfo = program_info;
  out.clGetProgramBuildInfo = build_info;
  out.clCreateKernel = create_kernel;
  out.clRetainKernel = retain<_cl_kernel>;
  out.clReleaseKernel = release<_cl_kernel>;
  out.clGetKernelWorkGroupInfo = kernel_group_info;
  out.clSetKernelArg = set_argument;
}

}  // namespace stub
