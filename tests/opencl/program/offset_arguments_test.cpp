// Kernels that take offsets into whole buffers, for drivers on which sub-buffers must not overlap.
#include "opencl/program/offset_arguments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "engine/device/device_access.h"
#include "engine/gradients/autograd.h"
#include "engine/graph/run/executor.h"
#include "engine/ops/ops.h"
#include "engine/passes/passes.h"
#include "opencl/program/kernel_sources.h"
#include "opencl/program/program_cache.h"
#include "tests/support/device/test_device.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

using List = std::vector<double>;

TEST(OffsetArguments, follow_each_pointer_which_begins_there) {
  EXPECT_EQ(opencl::with_offset_arguments("int one(__global int* x);\n"
                                          "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"
                                          "void f(__global const float* restrict x, const long n, __global int *y) {\n  *y = x[n];\n}\n"
                                          "__kernel void g(const int n) { h(n); }\n"),
            "int one(__global int* x);\n"
            "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"
            "void f(__global const float* restrict x, const ulong x_offset, const long n, __global int *y, const ulong y_offset) {"
            " x = (__global const float*)((__global const char*)x + x_offset); y = (__global int *)((__global const char*)y + y_offset);\n"
            "  *y = x[n];\n}\n"
            "__kernel void g(const int n) { h(n); }\n");
}

TEST(OffsetArguments, follow_those_that_macros_stand_for) {
  EXPECT_EQ(opencl::with_offset_arguments("#define SIZES const long n\n#define TENSORS  \\\n  __global int* x, \\\n  __global int* y\n"
                                          "__kernel void f(TENSORS, SIZES) {}\n"),
            "#define SIZES const long n\n#define TENSORS  \\\n  __global int* x, \\\n  __global int* y\n"
            "__kernel void f(    __global int* x, const ulong x_offset,   __global int* y, const ulong y_offset, SIZES) {"
            " x = (__global int*)((__global const char*)x + x_offset); y = (__global int*)((__global const char*)y + y_offset);}\n");
}

TEST(OffsetArguments, follow_those_of_an_epilogue_too) {
  EXPECT_EQ(opencl::with_offset_arguments("#define EPILOGUE_PARAMETERS , const long first, __global const float* e\n#define EPILOGUE_PARAMETERS\n"
                                          "__kernel void f(__global int* y EPILOGUE_PARAMETERS) {}\n"),
            "#define EPILOGUE_PARAMETERS , const long first, __global const float* e\n#define EPILOGUE_PARAMETERS\n"
            "__kernel void f(__global int* y, const ulong y_offset  , const long first, __global const float* e, const ulong e_offset) {"
            " y = (__global int*)((__global const char*)y + y_offset); e = (__global const float*)((__global const char*)e + e_offset);}\n");
}

/// What stands between brackets from `open` on.
std::string bracketed(const std::string& text, std::size_t open) {
  int depth = 0;
  std::size_t i = open;
  do depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
  while (depth > 0 && ++i < text.size());
  return text.substr(open, i - open);
}

TEST(OffsetArguments, miss_no_pointer_of_any_kernel) {
  static const std::regex head("__kernel\\b[^;{}]*?\\bvoid\\s+(\\w+)\\s*\\("), offset("_offset\\b"), name("\\b[A-Z_]{2,}\\b");
  const auto count = [](const std::string& text, const std::regex& what) {
    return std::distance(std::sregex_iterator(text.begin(), text.end(), what), std::sregex_iterator());
  };
  ASSERT_TRUE(std::regex_search("#define A \\\n  float* x", std::regex("#define A\\b(?:[^\\n*\\\\]|\\\\\\n)*\\*")));
  int kernels = 0;
  for (const opencl::KernelSource& file : opencl::kernel_sources()) {
    if (!file.file.ends_with(".cl")) continue;
    const std::string source = opencl::with_offset_arguments(opencl::embedded_source(file.file));
    for (std::sregex_iterator k(source.begin(), source.end(), head), end; k != end; ++k, ++kernels) {
      const std::string list = bracketed(source, static_cast<std::size_t>(k->position() + k->length()) - 1);
      EXPECT_EQ(std::ranges::count(list, '*'), count(list, offset)) << file.file << " " << (*k)[1];
      for (std::sregex_iterator m(list.begin(), list.end(), name); m != end; ++m)
        EXPECT_FALSE(std::regex_search(source, std::regex("#define " + m->str() + "\\b(?:[^\\n*\\\\]|\\\\\\n)*\\*")))
            << m->str() << " of " << (*k)[1] << " hides a pointer";
    }
  }
  EXPECT_GT(kernels, 100);
}

/// A step that reads parts of tensors, with an arena whose places overlap: losses and gradients.
std::vector<List> step_on(Session& session) {
  const auto filled = [&](const Shape& shape, double from) {
    List values(static_cast<std::size_t>(shape.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = from * static_cast<double>(i % 13) / 13 - 0.1;
    return session.tensor(Spec{shape, DType::float32}, std::span<const double>(values));
  };
  const Values in{filled({2, 8, 8, 6}, 1), filled({3, 3, 6, 8}, 0.5), filled({8}, 0.2), filled({8, 32}, 0.3)};
  Specs specs;
  for (const Value& v : in) specs.push_back(v.spec());
  auto program = optimise(session,
                          capture(session, specs,
                                  [](const Values& v) -> Values {
                                    const Values w{leaf(v[1]), leaf(v[2]), leaf(v[3])};
                                    const Value features = relu(conv2d(slice(v[0], {0, 1, 0, 0}, {2, 7, 8, 6}), w[0], {.padding = {1, 1}}) + w[1]);
                                    const Value scores = matmul(reshape(features, Shape{2 * 6 * 8, 8}), w[2]);
                                    const Value halves = slice(scores, {0, 16}, {96, 32}) * slice(scores, {0, 0}, {96, 16});
                                    const Value loss = sum(square(softmax(halves, 1)));
                                    Values out{loss};
                                    for (const Value& g : gradient({loss}, w)) out.push_back(g);
                                    return out;
                                  }),
                          parse_passes("all"));
  std::vector<List> out;
  for (const Value& v : Executor(session, std::make_shared<const Program>(std::move(program))).run(in)) out.push_back(read(v));
  return out;
}

TEST(DeviceOffsetArguments, give_the_bits_that_sub_buffers_give) {
  Session on_offsets(opencl::Device::open({.overlaps_sub_buffers = false}));
  EXPECT_FALSE(on_offsets.device().profile().overlaps_sub_buffers);
  const std::vector<List> found = step_on(on_offsets);
  EXPECT_EQ(found, step_on(test_session()));
  EXPECT_GT(found.front().front(), 0);
}

TEST(DeviceOffsetArguments, reach_clblasts_products_too) {
  if (test_device().profile().is_emulator) GTEST_SKIP() << "its kernels take an emulator minutes";
  Session on_offsets(opencl::Device::open({.gemm = opencl::GemmChoice::clblast, .overlaps_sub_buffers = false})),
      on_sub_buffers(opencl::Device::open({.gemm = opencl::GemmChoice::clblast}));
  EXPECT_EQ(step_on(on_offsets), step_on(on_sub_buffers));
}

}  // namespace
}  // namespace gemel::testing
