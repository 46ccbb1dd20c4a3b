#include "opencl/program/program_cache.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <system_error>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/hash.h"
#include "opencl/device/warn.h"
#include "opencl/pocl/driver_cache.h"
#include "opencl/pocl/driver_signals.h"
#include "opencl/program/compilation_log.h"
#include "opencl/program/kernel_sources.h"

namespace gemel::opencl {
namespace {

constexpr char kMagic[8] = {'g', 'e', 'm', 'e', 'l', 'b', 'i', '1'};

struct Header {
  char magic[8];
  std::uint64_t bytes, checksum;
};

std::string build_log(cl_program program, cl_device_id device) {
  std::size_t bytes = 0;
  if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return "";
  std::string log(bytes, '\0');
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr);
  return log.c_str();
}

ProgramHandle from_binary(cl_context context, cl_device_id device, const std::vector<unsigned char>& binary, const std::string& options) {
  if (binary.empty()) return {};
  const unsigned char* data = binary.data();
  const std::size_t size = binary.size();
  cl_int status = CL_SUCCESS, code = CL_SUCCESS;
  ProgramHandle program(clCreateProgramWithBinary(context, 1, &device, &size, &data, &status, &code));
  if (code != CL_SUCCESS || status != CL_SUCCESS) return {};
  if (clBuildProgram(program.get(), 1, &device, options.c_str(), nullptr, nullptr) != CL_SUCCESS) return {};
  return program;
}

/// @return null where it does not build; then `log` says why
ProgramHandle from_source(cl_context context, cl_device_id device, const ProgramText& text, std::string& log) {
  const char* source = text.source.c_str();
  cl_int code = CL_SUCCESS;
  ProgramHandle program(clCreateProgramWithSource(context, 1, &source, nullptr, &code));
  check(code, "clCreateProgramWithSource", text.title);
  // One language for all drivers: by default some take a later one, in which pointers without an address space are generic.
  // Without -w some print the number of warnings on the user's terminal.
  code = clBuildProgram(program.get(), 1, &device, (text.options + " -cl-std=CL1.2 -w").c_str(), nullptr, nullptr);
  if (code == CL_SUCCESS) return program;
  log = fmt::format("clBuildProgram: {}; program {} with options '{}'; build log:\n{}", code_name(code), text.title, text.options,
                    build_log(program.get(), device));
  return {};
}

/// The same with our own declarations of built-in functions: the macro is the guard of clang's header, which is then empty.
ProgramText with_declarations(const ProgramText& text) {
  return {text.title, embedded_source("lib/builtins.clh") + text.source, text.options + " -D_OPENCL_H_"};
}

std::vector<unsigned char> binary_of(cl_program program) {
  std::size_t size = 0;
  if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr) != CL_SUCCESS || size == 0) return {};
  std::vector<unsigned char> binary(size);
  unsigned char* to = binary.data();
  if (clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof to, &to, nullptr) != CL_SUCCESS) return {};
  return binary;
}

}  // namespace

std::optional<std::filesystem::path> ProgramCache::default_folder() {
  if (const char* own = std::getenv("GEMEL_CACHE_DIR"); own && *own) return own;
  // A path that is relative is to be ignored, says the XDG Base Directory Specification.
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && std::filesystem::path(xdg).is_absolute()) return std::filesystem::path(xdg) / "gemel";
  if (const char* home = std::getenv("HOME"); home && *home) return std::filesystem::path(home) / ".cache" / "gemel";
  return std::nullopt;
}

std::optional<std::filesystem::path> ProgramCache::folder_for(const DeviceProfile& profile) { return profile.is_pocl() ? std::nullopt : default_folder(); }

ProgramCache::ProgramCache(std::optional<std::filesystem::path> folder, const DeviceProfile& p)
    : folder_(std::move(folder)), device_(fmt::format("{}|{}|{}|{}|{}", p.platform, p.name, p.vendor, p.version, p.driver)), is_of_kernels_(!p.is_pocl()) {}

std::filesystem::path ProgramCache::file_for(const std::string& source, const std::string& options) const {
  const std::uint64_t first = hash_of(device_, hash_of(options, hash_of(source)));
  return *folder_ / fmt::format("{:016x}{:016x}.bin", first, hash_of(source, hash_of(options, first)));
}

std::vector<unsigned char> ProgramCache::load(const std::string& source, const std::string& options) const {
  if (!folder_) return {};
  const std::filesystem::path path = file_for(source, options);
  std::error_code none;
  if (!std::filesystem::exists(path, none)) return {};
  try {
    const std::vector<std::byte> file = read_whole(path);
    Header header{};
    if (file.size() < sizeof header) return {};
    std::memcpy(&header, file.data(), sizeof header);
    const std::span<const std::byte> binary = std::span(file).subspan(sizeof header);
    if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.bytes != binary.size() || hash_of(binary) != header.checksum) return {};
    const auto* begin = reinterpret_cast<const unsigned char*>(binary.data());
    return {begin, begin + binary.size()};
  } catch (const DataError&) {  // no file, or not ours: it is compiled again
    return {};
  }
}

void ProgramCache::store(const std::string& source, const std::string& options, const std::vector<unsigned char>& binary) const {
  if (!stores() || binary.empty()) return;
  Header header{{}, binary.size(), hash_of(std::as_bytes(std::span(binary)))};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  try {
    std::error_code failed;
    std::filesystem::create_directories(*folder_, failed);
    if (failed) throw DataError(fmt::format("{} cannot be made: {}", folder_->string(), failed.message()));
    write_file_atomically(file_for(source, options), [&](FileWriter& out) {
      out.write(std::as_bytes(std::span(&header, 1)));
      out.write(std::as_bytes(std::span(binary)));
    });
  } catch (const DataError& e) {
    if (!is_refused_.exchange(true)) warn(fmt::format("kernel cache: {}; compiled programs are not kept", e.what()));
  }
}

std::string with_includes(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::string out;
  for (std::string line; std::getline(in, line);) {
    const auto quote = line.find('"');
    if (line.rfind("#include", 0) == 0 && quote != std::string::npos)
      out += embedded_source(line.substr(quote + 1, line.find('"', quote + 1) - quote - 1));
    else
      out += line + "\n";
  }
  return out;
}

std::string embedded_source(std::string_view file) {
  for (const KernelSource& s : kernel_sources())
    if (s.file == file) return with_includes(s.text);
  throw InternalError(fmt::format("kernels: no embedded source is called {}", file));
}

std::string macros_for(const DeviceProfile& p) {
  return fmt::format("{}{}{}", p.is_cpu() ? "#define CPU\n" : "", p.is_emulator ? "#define EMULATOR\n" : "", p.has_fma ? "" : "#define fma mad\n");
}

ProgramHandle build_program(cl_context context, cl_device_id device, const ProgramCache& cache, const ProgramText& text) {
  if (cache.is_of_kernels()) count_program();
  if (ProgramHandle cached = from_binary(context, device, cache.load(text.source, text.options), text.options)) return cached;
  const auto begin = std::chrono::steady_clock::now();
  std::string log;
  ProgramHandle program;
  // A program that calls what is not declared there is built by the compiler's own header.
  if (text.declares_builtins) program = from_source(context, device, with_declarations(text), log);
  // LLVM removes the files that it writes when a signal comes, also one that the program notes or ignores; then a driver that compiles
  // by it fails, and succeeds when asked again.
  for (int attempt = 0; attempt < 2 && !program; ++attempt) {
    if (!log.empty()) DriverCache::of_process().look_again();
    program = from_source(context, device, text, log);
  }
  take_signals_back();
  if (!program) throw DeviceError(log);
  if (cache.is_of_kernels()) tell_compiled(text.title, std::chrono::steady_clock::now() - begin);
  if (cache.stores()) cache.store(text.source, text.options, binary_of(program.get()));
  return program;
}

}  // namespace gemel::opencl
