// Private to opencl/: what the process that compiles apart (compiler_main.cpp) is asked.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "opencl/device/device.h"
#include "opencl/program/program_cache.h"

namespace gemel::opencl {

/// To compile a program, and a kernel of it for groups of a size: PoCL does that when the kernel is first enqueued so.
struct CompileRequest {
  ProgramText program;
  std::string kernel = {};  // empty: the program alone
  Range range = {};
  std::vector<Argument> arguments = {};  // of regions the size counts; without bytes: no memory
  bool takes_offsets = false;            // behind each region (opencl/program/offset_arguments.h)
};

std::string to_text(const CompileRequest& request);
/// @throws InternalError where the text is none of to_text's
CompileRequest request_from(std::string_view text);

/// Messages on a socket. What cannot be sent is lost: the other side is gone. @return false where it is
bool send_message(int socket, std::string_view text);
bool receive_message(int socket, std::string& text);

/// The answers to each request: that it has come, and that the compiler is through. It may have failed: whoever asks meets that too.
inline constexpr std::string_view kBegun = "begun", kCompiled = "compiled";

}  // namespace gemel::opencl
