// What a kernel takes of a GPU, as compilers for GPUs say it in their own output.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gemel::testing {

struct KernelFigures {
  std::string name;
  int registers = 0;    // AMD, NVIDIA: of a work-item; Intel: of a hardware thread
  int spill_bytes = 0;  // registers that went to memory. AMD: 4 for each one, of a work-item or of a whole wave
  int stack_bytes = 0;  // private memory, with what is spilled (but in Intel's separate scratch memory)
  int local_bytes = 0;
  int fma_percent = 0;  // AMD: of the vector arithmetic of its inner loop (inner_loops.h); else 0

  friend bool operator==(const KernelFigures&, const KernelFigures&) = default;
};

/// Of the metadata in AMD's assembly (LLVM's AMDGPUUsage, "Code Object V3 Metadata").
std::vector<KernelFigures> figures_of_amd(std::string_view assembly);

/// Of what `ptxas -v` prints.
std::vector<KernelFigures> figures_of_nvidia(std::string_view log);

/// Of Intel's zeinfo, the section .ze_info of a program's binary (zeinfo.md in the repository of Intel's graphics compiler). Per hardware thread or, of
/// memory that says so, per work-item.
std::vector<KernelFigures> figures_of_intel(std::string_view ze_info);

/// The contents of a section of an ELF file of 64 bits, little endian; empty if there is none.
std::string elf_section(std::string_view file, std::string_view name);

/// How many 64-bit integer divisions and remainders stand in each entry of PTX; what has none is not there. Each is dozens of instructions on a GPU.
/// A divisor that is a constant makes none.
std::map<std::string, int> wide_divisions(std::string_view ptx);

}  // namespace gemel::testing
