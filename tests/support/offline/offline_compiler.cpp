#include "tests/support/offline/offline_compiler.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "engine/base/hash.h"
#include "opencl/program/offset_arguments.h"
#include "tests/support/offline/inner_loops.h"
#include "tests/support/temporary_folder.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;

const fs::path kKeptOutput = fs::path(GEMEL_BINARY_DIR) / "tests/offline";
// As `./gemel test` unpacks the package of Intel's driver.
const std::string kUnpackedOcloc = std::string(GEMEL_BINARY_DIR) + "/tests/ocloc/usr";
// As `pip install --no-deps --target build/tests/ptxas nvidia-cuda-nvcc-cu12==12.9.86` lays it. It goes before others: it knows Volta, which CUDA 13 does not.
const std::string kPtxasOfWheel = std::string(GEMEL_BINARY_DIR) + "/tests/ptxas/nvidia/cuda_nvcc/bin/ptxas";

// OpenCL's functions for clang: without them each is a call of something unknown, for which all registers go to the stack.
constexpr const char* kLibraryOfAmd = "/usr/lib/clc/amdgcn--amdhsa.bc";
constexpr const char* kLibraryOfNvidia = "/usr/lib/clc/nvptx64--nvidiacl.bc";

/// Of a program's source.cl into the file out.
std::string clang_command(const std::string& clang, const std::string& options, const std::string& target, const char* library) {
  return fmt::format(
      "{} -x cl -cl-std=CL1.2 -Xclang -fdeclare-opencl-builtins -Xclang -finclude-default-header -O3 -w -S -o out {} source.cl {} -Xclang "
      "-mlink-builtin-bitcode "
      "-Xclang {}",
      clang, options, target, library);
}

/// What a command leaves in the file `out` of an empty folder, in which it finds source.cl.
struct CompileStep {
  std::string tool, command, source;
  std::string (*part)(const std::string& out);  // that is kept
};

/// What the command writes to the file out and to its output, whether or not it succeeds.
std::string output_of(const std::string& command) {
  const TemporaryFolder folder;
  [[maybe_unused]] const int status = std::system(fmt::format("cd '{}' && {{ {}; }} >log 2>&1", folder.path().string(), command).c_str());
  return read_text(folder / "out") + read_text(folder / "log");
}

/// The first group of an expression in a command's output, or empty.
std::string version_in(const std::string& command, const char* expression) {
  const std::string output = output_of(command);
  std::smatch found;
  return std::regex_search(output, found, std::regex(expression)) ? found[1].str() : "";
}

std::string run_step(const CompileStep& step) {
  const TemporaryFolder folder;
  write_text(folder / "source.cl", step.source);
  const std::string line = fmt::format("cd '{}' && {{ {}; }} >log 2>&1", folder.path().string(), step.command);
  if (std::system(line.c_str()) != 0) throw std::runtime_error(step.command + "\n" + (read_text(folder / "log") + read_text(folder / "out")).substr(0, 2000));
  return step.part(read_text(folder / "out"));
}

/// As run_step; what it made before is read again.
std::string kept_or_run(const CompileStep& step) {
  const fs::path kept = kKeptOutput / fmt::format("{:016x}", hash_of(step.source, hash_of(step.command, hash_of(step.tool))));
  if (fs::exists(kept)) return read_text(kept);
  std::string out = run_step(step);
  fs::create_directories(kKeptOutput);
  const fs::path written = kept.string() + "." + std::to_string(::getpid());
  write_text(written, out);
  fs::rename(written, kept);
  return out;
}

std::string whole_output(const std::string& out) { return out; }
/// The metadata, behind a line `kernel percent` for each inner loop.
std::string figures_in_assembly(const std::string& out) {
  std::string kept;
  for (const auto& [kernel, percent] : fma_percent(out)) kept += fmt::format("{} {}\n", kernel, percent);
  return kept + out.substr(std::min(out.find("\t.amdgpu_metadata"), out.size()));
}
std::vector<KernelFigures> figures_of_kept(const std::string& kept) {
  std::vector<KernelFigures> out = figures_of_amd(kept);
  std::istringstream lines(kept.substr(0, kept.find("\t.amdgpu_metadata")));
  std::string kernel;
  for (int percent = 0; lines >> kernel >> percent;)
    for (KernelFigures& f : out)
      if (f.name == kernel) f.fma_percent = percent;
  return out;
}
std::string zeinfo_of(const std::string& out) { return elf_section(out, ".ze_info"); }

}  // namespace

OfflineCompiler::OfflineCompiler()
    : clang_{"clang-15", version_in("clang-15 --version", "version (\\d[\\d.]*)")},
      ocloc_{fs::exists(kUnpackedOcloc) ? fmt::format("LD_LIBRARY_PATH={0}/lib/x86_64-linux-gnu {0}/bin/ocloc", kUnpackedOcloc) : "ocloc", ""} {
  ocloc_.version = version_in(ocloc_.command + " query OCL_DRIVER_VERSION && mv OCL_DRIVER_VERSION out", "(\\d[\\d.]*)");
  for (const std::string& command : {kPtxasOfWheel, std::string("ptxas"), std::string("/usr/local/cuda/bin/ptxas")})
    if (ptxas_.version.empty()) ptxas_ = {command, version_in("'" + command + "' --version", "V(\\d[\\d.]*)")};
}

const OfflineCompiler::Tool& OfflineCompiler::tool_of(const OfflineTarget& target) const {
  return target.maker == GpuMaker::amd ? clang_ : target.maker == GpuMaker::nvidia ? ptxas_ : ocloc_;
}

std::string OfflineCompiler::lacks_for_ptx() const {
  if (clang_.version.empty()) return "needs clang-15 (Debian's clang-15)";
  return fs::exists(kLibraryOfNvidia) ? "" : fmt::format("needs {} (Debian's libclc-15)", kLibraryOfNvidia);
}

std::string OfflineCompiler::lacks(const OfflineTarget& target) const {
  const Tool& tool = tool_of(target);
  std::string known;  // a command that finds the target in the tool's own list
  switch (target.maker) {
    case GpuMaker::amd:
      if (tool.version.empty()) return "needs clang-15 (Debian's clang-15)";
      if (!fs::exists(kLibraryOfAmd)) return fmt::format("needs {} (Debian's libclc-15)", kLibraryOfAmd);
      known = fmt::format("clang-15 --target=amdgcn --print-supported-cpus 2>&1 | grep -w {}", target.name);
      break;
    case GpuMaker::nvidia:
      if (const std::string lacking = lacks_for_ptx(); !lacking.empty()) return lacking;
      if (tool.version.empty()) return "needs ptxas (PyPI's nvidia-cuda-nvcc-cu12, or CUDA)";
      known = fmt::format("{} --help | grep \"'{}'\"", tool.command, target.name);
      break;
    case GpuMaker::intel:
      if (tool.version.empty()) return "needs ocloc (Debian's intel-opencl-icd)";
      known = fmt::format("{} compile --help | grep -w {}", tool.command, target.name);
  }
  return std::system((known + " >/dev/null").c_str()) == 0 ? "" : fmt::format("{} does not know {}", tools(target), target.name);
}

std::string OfflineCompiler::tools(const OfflineTarget& target) const {
  switch (target.maker) {
    case GpuMaker::amd:
      return "clang " + clang_.version;
    case GpuMaker::nvidia:
      return "clang " + clang_.version + ", ptxas " + ptxas_.version;
    case GpuMaker::intel:
      return "ocloc " + ocloc_.version;
  }
  return "";
}

// With offsets into whole buffers, as NVIDIA's driver takes them. For the oldest of the GPUs that run it: clang 15 knows no newer one than sm_86, and ptxas
// makes code for newer ones of it.
std::string OfflineCompiler::ptx(const GpuProgram& program) const {
  const std::string oldest = is_for_units(program) ? "sm_80 -Xclang -target-feature -Xclang +ptx70" : "sm_70";
  const std::string target = "--target=nvptx64--nvidiacl -Xclang -target-cpu -Xclang " + oldest;
  return kept_or_run({"clang " + clang_.version, clang_command(clang_.command, program.options, target, kLibraryOfNvidia),
                      opencl::with_offset_arguments(program.text), whole_output});
}

std::vector<KernelFigures> OfflineCompiler::figures(const GpuProgram& program, const OfflineTarget& target) const {
  const Tool& tool = tool_of(target);
  switch (target.maker) {
    case GpuMaker::amd: {
      const std::string options = fmt::format("--target=amdgcn-amd-amdhsa -mcpu={} -nogpulib", target.name);
      return figures_of_kept(
          kept_or_run({tools(target) + ", loops", clang_command(tool.command, program.options, options, kLibraryOfAmd), program.text, figures_in_assembly}));
    }
    case GpuMaker::nvidia:
      return figures_of_nvidia(
          kept_or_run({tools(target), fmt::format("{} -v -arch={} -o code source.cl >out 2>&1", tool.command, target.name), ptx(program), whole_output}));
    case GpuMaker::intel:
      return figures_of_intel(kept_or_run({tools(target),
                                           fmt::format("{} compile -file source.cl --format zebin -device {} -options '-cl-std=CL1.2 {}' -output_no_suffix "
                                                       "-output out -exclude_ir && {{ [ -e out ] || mv out.bin out; }}",
                                                       tool.command, target.name, program.options),
                                           program.text, zeinfo_of}));
  }
  return {};
}

std::map<std::string, int> OfflineCompiler::divisions(const GpuProgram& program) const { return wide_divisions(ptx(program)); }

}  // namespace gemel::testing
