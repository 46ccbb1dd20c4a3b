// Private to opencl/: requests to gemel-compile, the process that compiles kernels (opencl/program/compiler_main.cpp).
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "opencl/device/device.h"
#include "opencl/program/program_cache.h"

namespace gemel::opencl {

/// Request to compile a program, and a kernel of it for a work-group size, as PoCL does when the kernel is first enqueued with that size.
struct CompileRequest {
  ProgramText program;
  std::string kernel = {};  // empty: the program alone
  Range range = {};
  std::vector<Argument> arguments = {};  // of regions only the size is used; 0 bytes: no memory
  bool takes_offsets = false;            // an offset follows each region (opencl/program/offset_arguments.h)
};

std::string to_text(const CompileRequest& request);
/// Inverse of to_text. @throws InternalError if the text is invalid
CompileRequest request_from(std::string_view text);

/// Sends or receives a message on a socket. @return false if the other side is gone
bool send_message(int socket, std::string_view text);
bool receive_message(int socket, std::string& text);

/// Two answers to each request: it was received, and the compiler has returned. A compiler error is not reported: the caller meets it as well.
inline constexpr std::string_view kBegun = "begun", kCompiled = "compiled";

}  // namespace gemel::opencl
