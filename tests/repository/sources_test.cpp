// What every source file keeps to: an opening comment, no nested #if in a kernel, no function of more than five parameters, no library's text for users,
// no kind of device but where variants are chosen, no name of a model, a kind of work, a style or an optimizer but where it is defined.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/catalog.h"
#include "frontends/cli/strategies/strategy.h"
#include "frontends/domains/domain.h"
#include "frontends/optim/optimizer.h"

namespace gemel {
namespace {

namespace fs = std::filesystem;

struct Source {
  fs::path path;
  std::vector<std::string> lines;
};

/// The files of these extensions below a folder of the source tree.
std::vector<Source> sources(const char* folder, const std::vector<std::string>& extensions) {
  std::vector<Source> out;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(GEMEL_SOURCE_DIR) / folder)) {
    if (!entry.is_regular_file() || std::ranges::find(extensions, entry.path().extension().string()) == extensions.end()) continue;
    Source source{entry.path(), {}};
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) source.lines.push_back(line);
    out.push_back(std::move(source));
  }
  return out;
}

/// The word after # of a preprocessor line, or empty.
std::string directive(const std::string& line) {
  auto at = line.find_first_not_of(" \t");
  if (at == std::string::npos || line[at] != '#') return {};
  at = line.find_first_not_of(" \t", at + 1);
  return at == std::string::npos ? std::string() : line.substr(at, line.find_first_of(" \t(", at) - at);
}

/// The first line at which a second #if is open; 0: none. An include guard around the whole file counts as one.
std::size_t first_nested_if(const std::vector<std::string>& lines) {
  int depth = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string word = directive(lines[i]);
    if (word == "endif") --depth;
    if ((word == "if" || word == "ifdef" || word == "ifndef") && ++depth > 1) return i + 1;
  }
  return 0;
}

/// The text without comments and the contents of literals.
std::string code_of(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) {
    char quote = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (quote) {
        if (line[i] == '\\')
          ++i;
        else if (line[i] == quote)
          quote = 0;
        continue;
      }
      if (line.compare(i, 2, "//") == 0) break;
      // Between digits it separates them.
      if (line[i] == '"' || (line[i] == '\'' && (i == 0 || !std::isalnum(static_cast<unsigned char>(line[i - 1])))))
        quote = line[i];
      else
        out += line[i];
    }
    out += '\n';
  }
  return out;
}

/// Parameters in a list: its commas that stand in no brackets of their own, and one.
int parameters_in(std::string_view list) {
  if (list.find_first_not_of(" \n") == std::string_view::npos) return 0;
  int depth = 0, count = 1;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const bool arrow = list[i] == '>' && i > 0 && list[i - 1] == '-';
    if (std::string_view("(<[{").find(list[i]) != std::string_view::npos) ++depth;
    if (std::string_view(")>]}").find(list[i]) != std::string_view::npos && !arrow) --depth;
    if (list[i] == ',' && depth == 0) ++count;
  }
  return count;
}

/// The names of the functions defined in a text that have more than `most` parameters.
std::vector<std::string> functions_above(const std::string& code, int most) {
  std::vector<std::string> out;
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code[i] == '(') open.push_back(i);
    if (code[i] != ')' || open.empty()) continue;
    const std::size_t begin = open.back();
    open.pop_back();
    std::size_t next = code.find_first_not_of(" \n", i + 1);
    for (const std::string_view word : {"const", "noexcept", "override"})
      if (next != std::string::npos && code.compare(next, word.size(), word) == 0) next = code.find_first_not_of(" \n", next + word.size());
    if (next == std::string::npos || (code[next] != '{' && code.compare(next, 2, ": ") != 0 && code.compare(next, 2, "->") != 0)) continue;
    std::size_t name = begin;
    while (name > 0 && (std::isalnum(static_cast<unsigned char>(code[name - 1])) || code[name - 1] == '_')) --name;
    const std::string word = code.substr(name, begin - name);
    if (code[next] == ':' && (word.empty() || !std::isupper(static_cast<unsigned char>(word[0])))) continue;  // no constructor
    if (parameters_in(std::string_view(code).substr(begin + 1, i - begin - 1)) > most) out.push_back(word);
  }
  return out;
}

TEST(Sources, functions_of_many_parameters_are_found) {
  EXPECT_TRUE(functions_above("int f(int a, std::map<int, int> b, int c, int d, int e) { return g(a, b, c, d, e, 1); }", 5).empty());
  EXPECT_EQ(functions_above("int f(int a, int b,\n int c, int d, int e, int f) const {", 5), std::vector<std::string>{"f"});
  EXPECT_EQ(functions_above("Made(int a, int b, int c, int d, int e, int f) : a_(a) {", 5), std::vector<std::string>{"Made"});
}

TEST(Sources, no_function_has_more_than_five_parameters) {
  for (const char* folder : {"engine", "opencl", "parallel", "frontends", "datasets", "tests", "benchmarks", "examples"})
    for (const Source& s : sources(folder, {".h", ".cpp"})) {
      if (s.path.string().find("/stub_driver/") != std::string::npos) continue;  // its functions are OpenCL's
      for (const std::string& name : functions_above(code_of(s.lines), 5)) ADD_FAILURE() << s.path << ": " << name;
    }
}

TEST(Sources, a_nested_if_is_found) {
  EXPECT_EQ(first_nested_if({"#ifdef A", "#endif", "#if B", "#elif C", "#else", "#endif"}), 0u);
  EXPECT_EQ(first_nested_if({"#ifdef A", "x", " # if B", "#endif", "#endif"}), 3u);
}

TEST(Sources, no_kernel_nests_conditions) {
  const auto kernels = sources("opencl/kernels", {".cl", ".clh"});
  EXPECT_GE(kernels.size(), 20u);
  for (const Source& k : kernels) EXPECT_EQ(first_nested_if(k.lines), 0u) << k.path;
}

/// The first function of a kernel's text that gets local memory and may be called, not copied (IN_LINE in loops.clh says why it may not), or "".
std::string first_called_with_local_memory(const std::string& code) {
  constexpr std::string_view kStatic = "static ";
  for (std::size_t at = code.find(kStatic); at != std::string::npos; at = code.find(kStatic, at + 1)) {
    const std::string head = code.substr(at, code.find_first_of("{;", at) - at);
    if (head.find("__local") != std::string::npos && !head.starts_with("static IN_LINE ")) return head.substr(0, head.find('('));
  }
  return "";
}

TEST(Sources, a_function_that_is_called_with_local_memory_is_found) {
  EXPECT_EQ(first_called_with_local_memory("static inline float a(__global float* x) { __local float y[2]; }\nstatic IN_LINE float b(__local float* x) {}"),
            "");
  EXPECT_EQ(first_called_with_local_memory("static inline int a(int n);\nstatic IN_LINE float b(__local float* x) {}"), "");
  EXPECT_EQ(first_called_with_local_memory("static inline float a(int n,\n __local float* x) {"), "static inline float a");
}

TEST(Sources, functions_that_get_local_memory_are_in_line) {
  for (const Source& k : sources("opencl/kernels", {".cl", ".clh"})) EXPECT_EQ(first_called_with_local_memory(code_of(k.lines)), "") << k.path;
}

/// The lines in handlers of any exception that take its own text. A handler ends at a bracket below the one that it begins with.
std::vector<std::string> texts_taken_of_any_exception(const std::vector<std::string>& lines) {
  std::vector<std::string> out;
  std::size_t handler = std::string::npos;  // its indentation
  for (const std::string& line : lines) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == handler && begin != std::string::npos && line[begin] == '}') handler = std::string::npos;
    const std::size_t opens = line.find("catch (const std::exception& ");
    const bool is_told = line.find(".what()", opens == std::string::npos ? 0 : opens) != std::string::npos;
    if ((handler != std::string::npos || opens != std::string::npos) && is_told) out.push_back(line);
    if (opens != std::string::npos && !line.ends_with('}')) handler = begin;
  }
  return out;
}

TEST(Sources, texts_taken_of_any_exception_are_found) {
  const std::vector<std::string> lines{
      "  try {",       "  } catch (const Error& e) {", "    a(e.what());", "  } catch (const std::exception& e) {  // others", "    b(e.what());", "  }",
      "  c(e.what());"};
  EXPECT_EQ(texts_taken_of_any_exception(lines), std::vector<std::string>{"    b(e.what());"});
  const std::vector<std::string> in_one_line{"  } catch (const std::exception& e) { b(e.what()); }", "  c(e.what());"};
  EXPECT_EQ(texts_taken_of_any_exception(in_one_line), std::vector<std::string>{in_one_line[0]});
}

TEST(Sources, what_users_are_told_of_any_exception_is_worded) {
  for (const char* folder : {"engine", "opencl", "parallel", "datasets", "frontends"})
    for (const Source& s : sources(folder, {".h", ".cpp"}))
      for (const std::string& line : texts_taken_of_any_exception(s.lines)) ADD_FAILURE() << s.path << ": " << line << "; accepted: worded(e)";
}

/// What only engine/base/resource_limits.cpp asks: what the machine has, or what is left of it for a process.
std::vector<std::string> questions_about_the_machine(const std::vector<std::string>& lines) {
  std::vector<std::string> out;
  for (const std::string& line : lines)
    for (const std::string_view question : {"hardware_concurrency", "sched_getaffinity", "pthread_getaffinity", "_SC_NPROCESSORS", "_SC_PHYS_PAGES",
                                            "_SC_AVPHYS_PAGES", "get_nprocs", "sysinfo(", "omp_get_num_procs", "sys/fs/cgroup", "/cgroup", "cpu.max",
                                            "memory.max", "cpu.cfs_quota", "memory.limit_in_bytes", "proc/meminfo", "MemAvailable", "Cpus_allowed"})
      if (line.find(question) != std::string::npos) out.push_back(line);
  return out;
}

TEST(Sources, questions_about_the_machine_are_found) {
  EXPECT_EQ(questions_about_the_machine(
                {"  int n = std::thread::hardware_concurrency();", "  sched_setaffinity(0, sizeof one, &one);", "std::ifstream in(\"/proc/self/cgroup\");"})
                .size(),
            2u);
}

TEST(Sources, what_a_process_may_use_is_asked_in_one_place) {
  for (const char* folder : {"engine", "opencl", "parallel", "datasets", "frontends", "benchmarks", "examples"})
    for (const Source& s : sources(folder, {".h", ".cpp"}))
      for (const std::string& line : questions_about_the_machine(s.lines))
        if (!s.path.string().ends_with("engine/base/resource_limits.cpp"))
          ADD_FAILURE() << s.path << ": " << line << "; accepted: allowed_cores() and allowed_memory() of engine/base/resource_limits.h";
}

/// The lines that compare something with one of these names, or that branch on one.
std::vector<std::string> comparisons_with(const std::vector<std::string>& names, const std::vector<std::string>& lines) {
  static const std::regex compares("[!=]=|\\bcase\\b|starts_with");
  std::vector<std::string> out;
  for (const std::string& line : lines) {
    const bool has_name = std::ranges::any_of(names, [&](const std::string& name) { return line.find('"' + name + '"') != std::string::npos; });
    if (has_name && std::regex_search(line, compares)) out.push_back(line);
  }
  return out;
}

/// The lines that compare the name of a strategy, whatever with.
std::vector<std::string> comparisons_of_strategies(const std::vector<std::string>& lines) {
  static const std::regex compares("(strategy|style)(\\(\\))?(\\.|->)name(\\(\\))? *([!=]=|\\.)");
  std::vector<std::string> out;
  std::ranges::copy_if(lines, std::back_inserter(out), [](const std::string& line) { return std::regex_search(line, compares); });
  return out;
}

TEST(Sources, comparisons_with_names_are_found) {
  const std::vector<std::string> asking{"  if (o.style == \"ddp\") {", "  case x: f(\"mirrored\");", "  if (text.starts_with(\"mirrored\"))"};
  EXPECT_EQ(comparisons_with({"ddp", "mirrored"}, asking), asking);
  EXPECT_TRUE(comparisons_with({"ddp"}, {"  run({\"--parallel\", \"ddp\"})", "if (a == b)", "if (a == \"ddp2\")"}).empty());
  EXPECT_EQ(comparisons_of_strategies({"  if (job.strategy().name() == other) {", "  say(\"{}: {} ranks\", strategy.name(), n);"}).size(), 1u);
}

TEST(Sources, a_parallel_style_is_asked_for_in_its_own_file_alone) {
  EXPECT_GE(cli::styles().size(), 6u);
  for (const Source& s : sources("frontends", {".h", ".cpp"})) {
    std::vector<std::string> others;
    for (const cli::Style* style : cli::styles())
      if (*style->name && (s.path.parent_path().filename() != "strategies" || s.path.stem() != style->name)) others.push_back(style->name);
    std::vector<std::string> lines = comparisons_with(others, s.lines);
    std::ranges::copy(comparisons_of_strategies(s.lines), std::back_inserter(lines));
    for (const std::string& line : lines) ADD_FAILURE() << s.path << ": " << line << "; accepted: a function of frontends/cli/strategies/strategy.h";
  }
}

/// Nothing that computes, and no command, behaves otherwise for one model, kind of work or optimizer: what differs is said by its record.
TEST(Sources, no_model_kind_of_work_or_optimizer_is_asked_for_by_name) {
  std::vector<std::string> names = domains::model_names();
  EXPECT_GE(names.size(), 15u);
  for (const domains::Domain* domain : domains::all()) names.emplace_back(domain->name);
  for (const std::string_view optimizer : optim::names()) names.emplace_back(optimizer);
  for (const char* folder : {"engine", "opencl", "parallel", "datasets", "frontends"})
    for (const Source& s : sources(folder, {".h", ".cpp"}))
      for (const std::string& line : comparisons_with(names, s.lines))
        if (line.find("name() const override") == std::string::npos)  // where an optimizer says its own
          ADD_FAILURE() << s.path << ": " << line
                        << "; accepted: a field of its record (frontends/domains/domain.h, frontends/models, frontends/optim/optimizer.h)";
}

TEST(Sources, kinds_of_devices_are_told_apart_in_one_place) {
  int found = 0;
  for (const Source& s : sources("engine", {".h", ".cpp"}))
    for (const std::string_view word : {"is_cpu", "is_emulator", "DeviceKind"}) {
      if (code_of(s.lines).find(word) == std::string::npos) continue;
      const bool may = s.path.filename() == "dispatch.cpp" || s.path.filename() == "device_access.cpp";  // which variant, and whether the host computes
      EXPECT_TRUE(may) << s.path << ": " << word << "; accepted: a variant's target and needs, or another fact of opencl/device_profile.h";
      ++found;
    }
  EXPECT_EQ(found, 2);
}

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// The names before a bracket.
void add_called(const std::string& code, std::set<std::string>& called) {
  for (std::size_t end = code.find('('); end != std::string::npos; end = code.find('(', end + 1)) {
    std::size_t begin = end;
    while (begin > 0 && is_name(code[begin - 1])) --begin;
    called.insert(code.substr(begin, end - begin));
  }
}

// Of OpenCL C 1.2, section 6.12, without conversions, loads and stores of vectors, images and the native and half functions.
constexpr const char* kBuiltins =
    "get_work_dim get_global_size get_global_id get_local_size get_local_id get_num_groups get_group_id get_global_offset acos acosh acospi asin asinh "
    "asinpi atan atan2 atanh atanpi atan2pi cbrt ceil copysign cos cosh cospi erfc erf exp exp2 exp10 expm1 fabs fdim floor fma fmax fmin fmod fract "
    "frexp hypot ilogb ldexp lgamma lgamma_r log log2 log10 log1p logb mad maxmag minmag modf nan nextafter pow pown powr remainder remquo rint rootn "
    "round rsqrt sin sincos sinh sinpi sqrt tan tanh tanpi tgamma trunc abs abs_diff add_sat hadd rhadd clamp clz mad_hi mad_sat max min mul_hi rotate "
    "sub_sat upsample popcount mad24 mul24 degrees mix radians step smoothstep sign cross dot distance length normalize isequal isnotequal isgreater "
    "isgreaterequal isless islessequal islessgreater isfinite isinf isnan isnormal isordered isunordered signbit any all bitselect select barrier "
    "mem_fence async_work_group_copy atomic_add atomic_sub atomic_xchg atomic_inc atomic_dec atomic_cmpxchg atomic_min atomic_max atomic_and atomic_or "
    "atomic_xor shuffle shuffle2 printf";

TEST(Sources, built_in_functions_that_kernels_call_are_declared_in_builtins_clh) {
  std::set<std::string> called;
  std::string declarations;
  for (const Source& k : sources("opencl/kernels", {".cl", ".clh"})) {
    if (k.path.filename() == "builtins.clh")
      declarations = code_of(k.lines);
    else
      add_called(code_of(k.lines), called);
  }
  for (const OpDef* op : catalog())
    if (op->elementwise) add_called(op->elementwise->statements + " " + op->elementwise->body, called);
  const auto is_declared = [&](const std::string& name) {
    for (std::size_t at = declarations.find(name); at != std::string::npos; at = declarations.find(name, at + 1))
      if (!is_name(declarations[at - 1]) && !is_name(declarations[at + name.size()])) return true;
    return false;
  };
  EXPECT_FALSE(is_declared("tgamma")) << "not one that kernels call";
  std::istringstream builtins(kBuiltins);
  int found = 0;
  for (std::string name; builtins >> name;) {
    if (!called.contains(name)) continue;
    EXPECT_TRUE(is_declared(name)) << name;
    ++found;
  }
  EXPECT_GE(found, 25);
}

/// The lines that compare the address of an operator's record.
std::vector<std::string> records_compared(const std::vector<std::string>& lines) {
  static const std::regex compared(R"([!=]= &\w+_def\(\)|&\w+_def\(\) [!=]=)");
  std::vector<std::string> out;
  std::ranges::copy_if(lines, std::back_inserter(out), [](const std::string& line) { return std::regex_search(line, compared); });
  return out;
}

TEST(Sources, compared_records_are_found) {
  const std::vector<std::string> lines{"if (step.op == &gather_def()) {", "return &gather_def() != op;", "apply(gather_def(), in);",
                                       "a == b ? &gather_def() : c"};
  EXPECT_EQ(records_compared(lines), (std::vector<std::string>{lines[0], lines[1]}));
}

/// What an operator is says a field of its record, so that another operator can be it too. Families know their own.
TEST(Sources, nobody_but_its_family_knows_an_operator_by_its_record) {
  for (const char* folder : {"engine", "parallel", "frontends"})
    for (const Source& s : sources(folder, {".h", ".cpp"}))
      if (s.path.string().find("/engine/ops/") == std::string::npos)
        for (const std::string& line : records_compared(s.lines)) ADD_FAILURE() << s.path << ": " << line << "; accepted: a field of OpDef";
}

TEST(Sources, every_file_says_first_what_is_in_it) {
  for (const char* folder : {"engine", "opencl", "parallel", "frontends", "datasets", "tests", "benchmarks", "examples"})
    for (const Source& s : sources(folder, {".h", ".cpp", ".cl", ".clh"})) {
      // What implements a header is told there.
      const bool has_header = s.path.extension() == ".cpp" && fs::exists(fs::path(s.path).replace_extension(".h"));
      ASSERT_FALSE(s.lines.empty()) << s.path;
      EXPECT_TRUE(s.lines[0].starts_with("// ") || (has_header && s.lines[0].starts_with("#include \""))) << s.path << ": " << s.lines[0];
    }
}

}  // namespace
}  // namespace gemel
