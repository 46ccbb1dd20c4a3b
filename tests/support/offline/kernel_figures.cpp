#include "tests/support/offline/kernel_figures.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>

namespace gemel::testing {
namespace {

std::vector<std::string_view> output_lines(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

int leading_number(std::string_view text) {
  int out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

/// The text between two others, if both are there.
std::optional<std::string_view> text_between(std::string_view text, std::string_view before, std::string_view after) {
  const std::size_t at = text.find(before);
  if (at == text.npos) return std::nullopt;
  const std::size_t begin = at + before.size(), end = text.find(after, begin);
  if (end == text.npos) return std::nullopt;
  return text.substr(begin, end - begin);
}

/// The number before a word: 48 of "Used 48 registers". Older ptxas writes sums: "2048+16 bytes smem".
int number_before(std::string_view line, std::string_view word) {
  const std::size_t end = line.find(word);
  if (end == line.npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && std::string_view("0123456789+").find(line[begin - 1]) != line.npos) --begin;
  const std::string_view number = line.substr(begin, end - begin);
  const std::size_t plus = number.find('+');
  return leading_number(number) + (plus == number.npos ? 0 : leading_number(number.substr(plus + 1)));
}

/// A line `key: value` of YAML as compilers write it. The dash of a list counts as indentation.
struct YamlLine {
  std::size_t indentation = 0;
  bool begins_item = false;
  std::string_view key, value;
};

std::optional<YamlLine> yaml_line(std::string_view line) {
  YamlLine out;
  out.indentation = std::min(line.find_first_not_of(' '), line.size());
  if (line.substr(out.indentation).starts_with("- ")) {
    out.begins_item = true;
    out.indentation += 2;
  }
  const std::size_t colon = line.find(':', out.indentation);
  if (colon == line.npos) return std::nullopt;
  out.key = line.substr(out.indentation, colon - out.indentation);
  const std::size_t value = line.find_first_not_of(" '\"", colon + 1);
  if (value != line.npos) out.value = line.substr(value, line.find_last_not_of(" '\"\r") + 1 - value);
  return out;
}

constexpr std::size_t kKernelIndentation = 4;  // of the keys of a kernel, AMD's as Intel's

/// A buffer of each thread in zeinfo.
struct ThreadBuffer {
  std::string usage;
  int bytes = 0;
};

/// A kernel of zeinfo. Newer versions say the bytes in execution_env, older ones in a list of buffers.
struct IntelKernel {
  KernelFigures figures;
  bool says_bytes = false;
  std::vector<ThreadBuffer> buffers;
};

KernelFigures with_buffers(const IntelKernel& kernel) {
  KernelFigures out = kernel.figures;
  for (const ThreadBuffer& b : kernel.buffers)
    if (!kernel.says_bytes) (b.usage == "spill_fill_space" ? out.spill_bytes : out.stack_bytes) += b.bytes;
  return out;
}

void read_environment(const YamlLine& line, IntelKernel& kernel) {
  const int value = leading_number(line.value);
  if (line.key == "grf_count") kernel.figures.registers = value;
  if (line.key == "slm_size") kernel.figures.local_bytes = value;
  if (line.key == "private_size") kernel.figures.stack_bytes = value;
  if (line.key == "spill_size") kernel.figures.spill_bytes = value;
  if (line.key == "private_size" || line.key == "spill_size") kernel.says_bytes = true;
}

void read_buffer(const YamlLine& line, IntelKernel& kernel) {
  if (line.begins_item) kernel.buffers.emplace_back();
  if (kernel.buffers.empty()) return;
  if (line.key == "usage") kernel.buffers.back().usage = line.value;
  if (line.key == "size") kernel.buffers.back().bytes = leading_number(line.value);
}

template <class T>
T read_number(std::string_view bytes, std::size_t at) {
  T out{};
  if (at <= bytes.size() && bytes.size() - at >= sizeof out) std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

}  // namespace

std::vector<KernelFigures> figures_of_amd(std::string_view assembly) {
  std::vector<KernelFigures> out;
  const auto metadata = text_between(assembly, ".amdgpu_metadata", ".end_amdgpu_metadata");
  for (const std::string_view text : output_lines(metadata.value_or(""))) {
    const auto line = yaml_line(text);
    if (!line || line->indentation != kKernelIndentation) continue;
    if (line->begins_item) out.emplace_back();
    if (out.empty()) continue;
    KernelFigures& kernel = out.back();
    const int value = leading_number(line->value);
    if (line->key == ".name") kernel.name = line->value;
    if (line->key == ".vgpr_count") kernel.registers = value;
    if (line->key == ".vgpr_spill_count" || line->key == ".sgpr_spill_count") kernel.spill_bytes += 4 * value;
    if (line->key == ".private_segment_fixed_size") kernel.stack_bytes = value;
    if (line->key == ".group_segment_fixed_size") kernel.local_bytes = value;
  }
  return out;
}

std::vector<KernelFigures> figures_of_nvidia(std::string_view log) {
  std::vector<KernelFigures> out;
  bool is_of_entry = false;  // what follows is of the kernel, not of a function that it calls
  for (const std::string_view line : output_lines(log)) {
    if (const auto name = text_between(line, "Compiling entry function '", "'")) out.push_back({.name = std::string(*name)});
    if (out.empty()) continue;
    KernelFigures& kernel = out.back();
    if (const std::size_t at = line.find("Function properties for "); at != line.npos) is_of_entry = line.ends_with(" " + kernel.name);
    if (is_of_entry && line.find("bytes stack frame") != line.npos) {
      kernel.stack_bytes = number_before(line, " bytes stack frame");
      kernel.spill_bytes = std::max(number_before(line, " bytes spill stores"), number_before(line, " bytes spill loads"));
    }
    if (line.find(": Used ") != line.npos) {
      kernel.registers = number_before(line, " registers");
      kernel.local_bytes = number_before(line, " bytes smem");
      kernel.stack_bytes = std::max(kernel.stack_bytes, number_before(line, " bytes cumulative stack size"));
    }
  }
  return out;
}

std::vector<KernelFigures> figures_of_intel(std::string_view ze_info) {
  std::vector<IntelKernel> kernels;
  std::string_view list, section;  // "kernels", "execution_env"
  for (const std::string_view text : output_lines(ze_info)) {
    const auto line = yaml_line(text);
    if (!line) continue;
    if (line->indentation == 0) list = line->key;
    if (list != "kernels") continue;
    if (line->indentation == kKernelIndentation) {
      section = line->key;
      if (line->begins_item) kernels.emplace_back();
      if (line->key == "name" && !kernels.empty()) kernels.back().figures.name = line->value;
    }
    if (kernels.empty() || line->indentation <= kKernelIndentation) continue;
    if (section == "execution_env") read_environment(*line, kernels.back());
    if (section == "per_thread_memory_buffers") read_buffer(*line, kernels.back());
  }
  std::vector<KernelFigures> out;
  std::ranges::transform(kernels, std::back_inserter(out), with_buffers);
  return out;
}

// Offsets in the file's header and in a section's, 64 bits: System V ABI, "ELF Header" and "Section Header".
std::string elf_section(std::string_view file, std::string_view name) {
  if (!file.starts_with("\x7f"
                        "ELF\x02\x01"))
    return {};
  const auto table = read_number<std::uint64_t>(file, 0x28);
  const auto entry = read_number<std::uint16_t>(file, 0x3a), count = read_number<std::uint16_t>(file, 0x3c), names = read_number<std::uint16_t>(file, 0x3e);
  const auto header = [&](std::size_t section) { return table + section * entry; };
  const auto begin = [&](std::size_t section) { return read_number<std::uint64_t>(file, header(section) + 0x18); };
  for (std::size_t s = 0; s < count; ++s) {
    const std::size_t label = begin(names) + read_number<std::uint32_t>(file, header(s));
    if (label > file.size() || !file.substr(label).starts_with(name) || read_number<char>(file, label + name.size()) != '\0') continue;
    if (begin(s) <= file.size()) return std::string(file.substr(begin(s), read_number<std::uint64_t>(file, header(s) + 0x20)));
  }
  return {};
}

std::map<std::string, int> wide_divisions(std::string_view ptx) {
  constexpr std::array<std::string_view, 4> kDivisions{"div.s64", "div.u64", "rem.s64", "rem.u64"};
  std::map<std::string, int> out;
  std::string entry;
  for (const std::string_view line : output_lines(ptx)) {
    if (const auto name = text_between(line, ".entry ", "(")) entry = *name;
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin != line.npos && std::ranges::any_of(kDivisions, [&](std::string_view d) { return line.substr(begin).starts_with(d); })) ++out[entry];
  }
  return out;
}

}  // namespace gemel::testing
