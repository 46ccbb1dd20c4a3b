// Figures of kernels out of what compilers wrote (clang 15.0.6, ptxas 13.0.88, ocloc 22.43.24595) of a source with three kernels and of attention_group, with
// lines left out that are not read; and the table that figures are compared with.
#include "tests/support/offline/kernel_figures.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/offline/figure_table.h"
#include "tests/support/offline/inner_loops.h"

namespace gemel::testing {

void PrintTo(const KernelFigures& f, std::ostream* out) {
  *out << f.name << ": " << f.registers << " registers, spills " << f.spill_bytes << ", stack " << f.stack_bytes << ", local " << f.local_bytes;
}

namespace {

using FigureList = std::vector<KernelFigures>;

constexpr const char* kAmdAssembly = R"(	.section	".AMDGPU.csdata"
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .address_space:  global
        .name:           x
        .offset:         0
      - .address_space:  global
        .name:           !str y
        .offset:         8
    .group_segment_fixed_size: 256
    .language_version:
      - 1
      - 2
    .name:           sums
    .private_segment_fixed_size: 0
    .sgpr_count:     12
    .sgpr_spill_count: 0
    .symbol:         sums.kd
    .vgpr_count:     7
    .vgpr_spill_count: 0
  - .agpr_count:     0
    .group_segment_fixed_size: 0
    .name:           spills
    .private_segment_fixed_size: 2408
    .sgpr_count:     28
    .sgpr_spill_count: 0
    .vgpr_count:     22
    .vgpr_spill_count: 0
  - .agpr_count:     0
    .group_segment_fixed_size: 0
    .name:           crowded
    .private_segment_fixed_size: 312
    .reqd_workgroup_size:
      - 1024
      - 1
      - 1
    .sgpr_count:     22
    .sgpr_spill_count: 0
    .vgpr_count:     128
    .vgpr_spill_count: 77
  - .agpr_count:     0
    .group_segment_fixed_size: 5120
    .name:           attention_group
    .private_segment_fixed_size: 0
    .sgpr_count:     104
    .sgpr_spill_count: 56
    .vgpr_count:     168
    .vgpr_spill_count: 0
amdhsa.target:   amdgcn-amd-amdhsa--gfx90a
amdhsa.version:
  - 1
  - 1
...

	.end_amdgpu_metadata
)";

TEST(KernelFigures, of_amd_are_in_its_metadata) {
  EXPECT_EQ(figures_of_amd(kAmdAssembly),
            (FigureList{{"sums", 7, 0, 0, 256}, {"spills", 22, 0, 2408, 0}, {"crowded", 128, 4 * 77, 312, 0}, {"attention_group", 168, 4 * 56, 0, 5120}}));
}

TEST(KernelFigures, of_amd_without_metadata_are_none) { EXPECT_TRUE(figures_of_amd("\t.text\n\ts_endpgm\n").empty()); }

constexpr const char* kPtxasLog = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'crowded' for 'sm_80'
ptxas info    : Function properties for crowded
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 8 bytes cumulative stack size, 376 bytes cmem[0]
ptxas info    : Compile time = 184.353 ms
ptxas info    : Compiling entry function 'spills' for 'sm_80'
ptxas info    : Function properties for spills
    2400 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 0 barriers, 2400 bytes cumulative stack size, 376 bytes cmem[0]
ptxas info    : Compile time = 10.869 ms
ptxas info    : Compiling entry function 'sums' for 'sm_80'
ptxas info    : Function properties for sums
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 18 registers, used 1 barriers, 256 bytes smem, 376 bytes cmem[0]
ptxas info    : Compile time = 3.431 ms
)";

TEST(KernelFigures, of_nvidia_are_in_what_ptxas_prints) {
  EXPECT_EQ(figures_of_nvidia(kPtxasLog), (FigureList{{"crowded", 255, 4, 8, 0}, {"spills", 24, 0, 2400, 0}, {"sums", 18, 0, 0, 256}}));
}

// Made up after what older versions print, of which none is at hand, and of a kernel that calls a function, which ours do not.
TEST(KernelFigures, of_nvidia_are_read_in_older_words_and_not_taken_of_called_functions) {
  constexpr const char* log = R"(ptxas info    : Compiling entry function 'sums' for 'sm_35'
ptxas info    : Function properties for sums
    16 bytes stack frame, 0 bytes spill stores, 4 bytes spill loads
ptxas info    : Function properties for sum_of_row
    64 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 18 registers, 256+16 bytes smem, 352 bytes cmem[0], 4 bytes cmem[2]
)";
  EXPECT_EQ(figures_of_nvidia(log), (FigureList{{"sums", 18, 4, 16, 272}}));
}

constexpr const char* kZeInfo = R"(---
version:         '1.20'
kernels:
  - name:            sums
    execution_env:
      barrier_count:   1
      grf_count:       128
      simd_size:       16
      slm_size:        256
    payload_arguments:
      - arg_type:        global_id_offset
        offset:          0
        size:            12
    per_thread_payload_arguments:
      - arg_type:        local_id
        offset:          0
        size:            96
  - name:            spills
    execution_env:
      grf_count:       128
      simd_size:       32
    payload_arguments:
      - arg_type:        private_base_stateless
        offset:          56
        size:            8
    per_thread_memory_buffers:
      - type:            global
        usage:           private_space
        size:            2400
        is_simt_thread:  true
  - name:            crowded
    user_attributes:
      reqd_work_group_size: [ 1024, 1, 1 ]
    execution_env:
      grf_count:       128
      required_work_group_size: [ 1024, 1, 1 ]
      simd_size:       8
    per_thread_memory_buffers:
      - type:            scratch
        usage:           single_space
        size:            16384
kernels_misc_info:
  - name:            sums
    args_info:
      - index:           0
        name:            x
        type_name:       'float*;8'
...
)";

TEST(KernelFigures, of_intel_are_in_zeinfo) {
  EXPECT_EQ(figures_of_intel(kZeInfo), (FigureList{{"sums", 128, 0, 0, 256}, {"spills", 128, 0, 2400, 0}, {"crowded", 128, 0, 16384, 0}}));
}

// After the documentation of zeinfo, "Execution Environment" and "Per Thread Memory Buffer": newer versions say both sizes in execution_env, of which no
// compiler is at hand.
TEST(KernelFigures, of_intel_are_read_where_newer_versions_say_them) {
  constexpr const char* newer = R"(kernels:
  - name: sums
    execution_env:
      grf_count: 256
      private_size: 64
      spill_size: 192
    per_thread_memory_buffers:
      - type: scratch
        usage: single_space
        size: 512
  - name: apart
    execution_env:
      grf_count: 128
    per_thread_memory_buffers:
      - type: scratch
        usage: private_space
        size: 32
        slot: 0
      - type: scratch
        usage: spill_fill_space
        size: 128
        slot: 1
)";
  EXPECT_EQ(figures_of_intel(newer), (FigureList{{"sums", 256, 192, 64, 0}, {"apart", 128, 128, 32, 0}}));
}

constexpr std::size_t kElfHeader = 64, kSectionHeader = 64;

/// An ELF file of a section with these contents, and of one with the sections' names.
std::string elf_file(const std::string& section, const std::string& contents) {
  const std::string names = std::string(1, '\0') + section + std::string(1, '\0');
  std::string out = "\177ELF\2\1" + std::string(kElfHeader + 2 * kSectionHeader - 6, '\0') + contents + names;
  const auto put = [&](std::size_t at, auto value) { std::memcpy(out.data() + at, &value, sizeof value); };
  const auto put_section = [&](std::size_t at, std::uint32_t name, std::size_t begin, std::size_t size) {
    put(at, name);
    put(at + 0x18, std::uint64_t{begin});
    put(at + 0x20, std::uint64_t{size});
  };
  put(0x28, std::uint64_t{kElfHeader});
  put(0x3a, std::uint16_t{kSectionHeader});
  put(0x3c, std::uint16_t{2});
  put(0x3e, std::uint16_t{1});
  const std::size_t data = kElfHeader + 2 * kSectionHeader;
  put_section(kElfHeader, 1, data, contents.size());
  put_section(kElfHeader + kSectionHeader, 0, data + contents.size(), names.size());
  return out;
}

TEST(KernelFigures, sections_of_an_elf_file_are_found_by_name) {
  const std::string file = elf_file(".ze_info", "kernels:\n");
  EXPECT_EQ(elf_section(file, ".ze_info"), "kernels:\n");
  EXPECT_EQ(elf_section(file, ".ze"), "");
  EXPECT_EQ(elf_section("kernels:\n", ".ze_info"), "");
}

TEST(KernelFigures, sections_of_a_cut_file_are_empty_or_cut) {
  const std::string file = elf_file(".ze_info", "kernels:\n");
  for (std::size_t size = 0; size < file.size(); ++size) EXPECT_TRUE(std::string_view("kernels:\n").starts_with(elf_section(file.substr(0, size), ".ze_info")));
}

TEST(KernelFigures, wide_divisions_are_counted_by_kernel) {
  constexpr const char* ptx = R"(.visible .entry sums(
	.param .u64 .ptr .global .align 4 sums_param_0
)
{
	div.rn.f32 	%f1, %f2, %f3;
	div.s32 	%r1, %r2, %r3;
}
.visible .entry spills(
	.param .u64 spills_param_2
)
{
	div.s64 	%rd90, %rd2, %rd26;
	bra.uni 	$L__BB1_3;
	div.u32 	%r5, %r4, %r3;
	rem.u64 	%rd91, %rd2, %rd26;
}
)";
  EXPECT_EQ(wide_divisions(ptx), (std::map<std::string, int>{{"spills", 2}}));
}

const FigurePlace kSums{"any/sums.cl", "-DWIDTH=4", "sums", "gfx1030"};

FigureTable table_of_sums() {
  FigureTable table;
  table.replace("gfx1030", "clang 15.0.6", {{kSums, {"sums", 40, 0, 16, 256}}});
  return table;
}

TEST(FigureTable, is_read_as_it_is_written) {
  FigureTable table = table_of_sums();
  table.replace("dg2", "ocloc 22.43.24595", {{{"add_item", "", "add_item_vv", "dg2"}, {"add_item_vv", 128, 4, 0, 0}}});
  const FigureTable read = read_figure_table(to_text(table));
  EXPECT_EQ(read.figures, table.figures);
  EXPECT_EQ(read.tools, table.tools);
  EXPECT_TRUE(read_figure_table("").figures.empty());
  EXPECT_THROW(read_figure_table("sums\t40\n"), std::runtime_error);
}

TEST(FigureTable, replaces_the_lines_of_one_target) {
  FigureTable table = table_of_sums();
  const FigurePlace other{"any/sums.cl", "", "others", "gfx1030"}, on_dg2{"any/sums.cl", "", "others", "dg2"};
  table.replace("dg2", "ocloc 1", {{on_dg2, {"others"}}});
  table.replace("gfx1030", "clang 16", {{other, {"others"}}});
  EXPECT_EQ(table.figures, (Figures{{on_dg2, {"others"}}, {other, {"others"}}}));
  EXPECT_EQ(table.tools.at("gfx1030"), "clang 16");
}

/// What is told where the kernel of the table has these figures.
std::vector<std::string> told_of(const KernelFigures& figures) { return worse_than(table_of_sums(), "gfx1030", {{kSums, figures}}); }

TEST(FigureTable, accepts_no_more_and_eight_registers) {
  EXPECT_TRUE(told_of({"sums", 48, 0, 16, 256}).empty());
  EXPECT_TRUE(told_of({"sums", 20, 0, 0, 256}).empty());
}

TEST(FigureTable, tells_each_figure_that_is_worse) {
  EXPECT_EQ(told_of({"sums", 49, 4, 24, 512}),
            (std::vector<std::string>{"sums (any/sums.cl -DWIDTH=4, gfx1030) has 49 registers, the table says 40; accepted: up to 48",
                                      "sums (any/sums.cl -DWIDTH=4, gfx1030) has 4 bytes of spills, the table says 0; accepted: up to 0",
                                      "sums (any/sums.cl -DWIDTH=4, gfx1030) has 24 bytes of stack, the table says 16; accepted: up to 16",
                                      "sums (any/sums.cl -DWIDTH=4, gfx1030) has 512 bytes of local memory; accepted: 256, as the table says"}));
}

TEST(FigureTable, tells_lines_that_are_missing_and_that_are_stale) {
  const FigurePlace other{"any/sums.cl", "", "others", "gfx1030"};
  EXPECT_EQ(worse_than(table_of_sums(), "gfx1030", {{other, {"others"}}}),
            (std::vector<std::string>{"others (any/sums.cl, gfx1030) has no line in the table",
                                      "sums (any/sums.cl -DWIDTH=4, gfx1030) has a line in the table and is not compiled"}));
  EXPECT_TRUE(worse_than(table_of_sums(), "dg2", {}).empty()) << "other targets are not looked at";
}

TEST(InnerLoops, of_amd_are_those_without_a_loop_in_them) {
  EXPECT_EQ(fma_percent("plain:   ; @plain\n\tv_add_f32 v1, v2, v3\n\ts_endpgm\n"
                        "nest:    ; @nest\n"
                        ".LBB1_1: ; =>This Loop Header: Depth=1\n\tv_fmac_f32_e32 v1, v2, v3\n\tv_fmac_f32_e32 v1, v2, v3\n\tv_fmac_f32_e32 v1, v2, v3\n"
                        ".LBB1_2: ;   inner\n\tv_fma_f32 v0, v1, v2, v3 ; v_add\n\tds_read_b128 v[0:3], v4\n\tv_add_nc_u32_e32 v1, 4, v1\n"
                        "\tv_dual_fmac_f32 v1, v2, v3 :: v_dual_fmac_f32 v4, v5, v6\n\ts_cbranch_scc1 .LBB1_2\n"
                        "\tv_add_f32 v1, v2, v3\n\ts_cbranch_vccnz .LBB1_1\n\ts_branch .LBB1_9\n.LBB1_9:\n\ts_endpgm\n"),
            (std::map<std::string, int>{{"nest", 75}}));
}

}  // namespace
}  // namespace gemel::testing
