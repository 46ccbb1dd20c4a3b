#include "engine/ops/elementwise_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/device/launch.h"
#include "engine/ops/common.h"

namespace gemel {
namespace {

constexpr std::int64_t kGroup = 256;  // work-items of a group, one an element
constexpr std::int64_t kWave = 32;
constexpr std::int64_t kChunkElements = 8192;  // of one work-item on a CPU: long enough to hide the launch, short enough to share

std::string pattern_name(const std::string& op, const char* form, const std::vector<bool>& constant) {
  std::string name = op + "_" + form + "_";
  for (bool c : constant) name += c ? 's' : 'v';
  return name;
}

/// "__global const float* a0, ..., __global float* y, float s, ..." : what every form begins with.
std::string parameters(const OpDef& op, const Specs& in, DType out) {
  std::string text;
  for (std::size_t i = 0; i < in.size(); ++i) text += fmt::format("__global const {}* a{}, ", opencl_stored_name(in[i].dtype), i);
  text += fmt::format("__global {}* y", opencl_stored_name(out));
  for (const std::string& s : op.elementwise->scalars) text += fmt::format(", const float {}", s);
  return text;
}

/// `to` = body, with each x_i loaded from where `index(i)` says.
template <class Index>
std::string statement(const OpDef& op, const Specs& in, DType out, const std::string& to, Index index) {
  std::string text = "{ ";
  for (std::size_t i = 0; i < in.size(); ++i)
    text += fmt::format("const {} x{} = {}; ", opencl_name(in[i].dtype), i, widened(in[i].dtype, fmt::format("a{}[{}]", i, index(i))));
  const std::string result = narrowed(out, fmt::format("({})({})", opencl_name(out), op.elementwise->body));
  return text + fmt::format("{}{} = {}; }}", op.elementwise->statements, to, result);
}

/// What the kernels of a folded problem have in common: their last parameters, and where row `all` (of all layers), row r of layer l,
/// begins in each input.
struct Rows {
  std::string parameters, begins, statement;
};
Rows rows_of(const OpDef& op, const Specs& in, DType out, const std::string& to, const std::vector<bool>& constant) {
  Rows text;
  for (std::size_t i = 0; i < in.size(); ++i) {
    text.parameters += fmt::format(", const long l{0}, const long r{0}", i);
    text.begins += fmt::format("const long b{0} = l * l{0} + r * r{0}; ", i);
  }
  text.statement = statement(op, in, out, to, [&](std::size_t i) { return fmt::format("b{}{}", i, constant[i] ? "" : " + c"); });
  return text;
}

/// A block of rows by a block of columns for each work-item, innermost loop over columns. With `around` a line at a time, which is
/// then stored around the caches.
std::string chunk_kernel(const OpDef& op, const Specs& in, DType out, const std::vector<bool>& constant) {
  const Rows text = rows_of(op, in, out, "y[all * columns + c]", constant);
  std::string lines;
  if (out == DType::float32)
    lines = fmt::format(
        "    for (long begin = c0; around && begin < c1; begin += STRIP) {{\n"
        "      const int count = min((long)STRIP, c1 - begin);\n"
        "      float line[STRIP];\n"
        "      INDEPENDENT\n"
        "      for (int j = 0; j < count; ++j) {{ const long c = begin + j; {} }}\n"
        "      store_around(line, y + all * columns + begin, count);\n"
        "    }}\n",
        rows_of(op, in, out, "line[j]", constant).statement);
  return fmt::format(
      "__kernel void {}({}, const long layers, const long rows, const long columns, const long row_block, const long column_block, const int around{}) {{\n"
      "  const long c0 = get_global_id(0) * column_block, c1 = min(c0 + column_block, columns);\n"
      "  const long first = get_global_id(1) * row_block, last = min(first + row_block, layers * rows);\n"
      "  long l = first / rows, r = first % rows;\n"
      "  for (long all = first; all < last; ++all) {{\n"
      "    {}\n{}"
      "    INDEPENDENT\n"
      "    for (long c = c0; c < (around ? c0 : c1); ++c) {}\n"
      "    if (++r == rows) {{ r = 0; ++l; }}\n"
      "  }}\n}}\n",
      pattern_name(op.name, "chunk", constant), parameters(op, in, out), text.parameters, text.begins, lines, text.statement);
}

std::string item_kernel(const OpDef& op, const Specs& in, DType out, const std::vector<bool>& constant) {
  const Rows text = rows_of(op, in, out, "y[all * columns + c]", constant);
  return fmt::format(
      "__kernel void {}({}, const long layers, const long rows, const long columns{}) {{\n"
      "  const long c = get_global_id(0);\n"
      "  if (c >= columns) return;\n"
      "  for (long l = get_global_id(2); l < layers; l += get_global_size(2))\n"
      "    for (long r = get_global_id(1); r < rows; r += get_global_size(1)) {{\n"
      "      const long all = l * rows + r;\n"
      "      {}{}\n    }}\n}}\n",
      pattern_name(op.name, "item", constant), parameters(op, in, out), text.parameters, text.begins, text.statement);
}

/// Any broadcast of up to eight axes: each item takes its index apart.
std::string general_kernel(const OpDef& op, const Specs& in, DType out) {
  std::string extents, offsets, steps;
  for (int k = 0; k < Shape::kMaxRank; ++k) {
    extents += fmt::format(", const long d{}", k);
    for (std::size_t i = 0; i < in.size(); ++i) extents += fmt::format(", const long s{}_{}", i, k);
  }
  for (std::size_t i = 0; i < in.size(); ++i) offsets += fmt::format(" long o{} = 0;", i);
  for (int k = Shape::kMaxRank - 1; k >= 0; --k) {
    steps += fmt::format("  {{ const long at = rest % d{0}; rest /= d{0};", k);
    for (std::size_t i = 0; i < in.size(); ++i) steps += fmt::format(" o{0} += at * s{0}_{1};", i, k);
    steps += " }\n";
  }
  return fmt::format(
      "__kernel void {}_general({}, const long n{}) {{\n  const long i = get_global_id(0);\n  if (i >= n) return;\n"
      "  long rest = i;{}\n{}  {}\n}}\n",
      op.name, parameters(op, in, out), extents, offsets, steps, statement(op, in, out, "y[i]", [](std::size_t k) { return fmt::format("o{}", k); }));
}

Specs scalars_of(std::span<const Spec> in) {
  Specs out;
  for (const Spec& s : in) out.push_back({Shape{}, s.dtype});
  return out;
}

using Form = std::string (*)(const OpDef&, const Specs& in, DType out, const std::vector<bool>& constant);

constexpr const char* kPrelude = "#include \"lib/stores.clh\"\n#include \"lib/math/functions.clh\"\n";

/// An operator's kernels of one form, for every set of inputs that hold one value a row: one program, built when first used.
/// Small programs: a whole family at once would cost the first step some seconds.
std::string program_source(const OpDef& op, const Specs& signature, DType out, Form form) {
  std::string text = kPrelude;
  for (unsigned mask = 0; mask < (1u << signature.size()); ++mask) {
    std::vector<bool> constant;
    for (std::size_t i = 0; i < signature.size(); ++i) constant.push_back((mask >> i) & 1u);
    text += form(op, signature, out, constant);
  }
  return text;
}

opencl::Kernel& kernel_of(const Launch& l, const char* form, const std::string& name, const std::function<std::string(const Specs&, DType)>& source) {
  if (const ElementwiseLibrary* library = l.problem().op.elementwise->library)
    return l.device().generated_kernel(
        library->title(), [&] { return library->source(); }, name);
  const Specs signature = scalars_of(l.problem().inputs);
  const DType out = l.out_spec(0).dtype;
  std::string title = l.problem().op.name + "_" + form;
  for (const Spec& s : signature) title += fmt::format("_{}", to_string(s.dtype));
  title += fmt::format("_{}", to_string(out));
  return l.device().generated_kernel(
      title, [&] { return source(signature, out); }, name);
}

opencl::Kernel& folded_kernel(const Launch& l, const char* name, Form form, const Folded& f) {
  const OpDef& op = l.problem().op;
  return kernel_of(l, name, pattern_name(op.name, name, f.column_constant), [&](const Specs& in, DType out) { return program_source(op, in, out, form); });
}

Arguments leading_arguments(const Launch& l) {
  Arguments out(l.inputs(), l.out(0));
  for (const std::string& s : l.problem().op.elementwise->scalars) out.add(l.attributes().real(s));
  return out;
}

Folded folded(const Problem& p) { return fold(Specs(p.inputs.begin(), p.inputs.end()), p.outputs[0].shape); }

const char* unless_folds(const Problem& p, const opencl::DeviceProfile&) {
  return folded(p).possible ? nullptr : "the broadcast does not fold into layers, rows and columns";
}

void add_strides(Arguments& arguments, const Folded& f) {
  for (std::size_t i = 0; i < f.row_stride.size(); ++i) arguments.add(f.layer_stride[i], f.row_stride[i]);
}

void launch_chunks(Launch& l) {
  const Folded f = folded(l.problem());
  const std::int64_t column_block = f.columns > 2 * kChunkElements ? kChunkElements : f.columns;
  const std::int64_t row_block = std::max<std::int64_t>(1, kChunkElements / std::max<std::int64_t>(1, f.columns));
  Arguments arguments = leading_arguments(l);
  arguments.add(f.layers, f.rows, f.columns, row_block, column_block, l.out_spec(0).dtype == DType::float32 && l.leaves_the_caches());
  add_strides(arguments, f);
  l.device().run(folded_kernel(l, "chunk", chunk_kernel, f),
                 opencl::range2({f.columns ? ceil_div(f.columns, column_block) : 0, ceil_div(f.layers * f.rows, row_block)}, {1, 1}), arguments);
}

void launch_items(Launch& l) {
  const Folded f = folded(l.problem());
  Arguments arguments = leading_arguments(l);
  arguments.add(f.layers, f.rows, f.columns);
  add_strides(arguments, f);
  // Whole waves of a row, and as many rows as fill a group.
  const std::int64_t wide = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::bit_ceil(at(f.columns))), kWave, kGroup);
  const std::int64_t high = f.rows >= kGroup / wide ? kGroup / wide : 1;
  l.device().run(
      folded_kernel(l, "item", item_kernel, f),
      opencl::range3({round_up(f.columns, wide), std::min(ceil_div(f.rows, high), opencl::kMostGroups) * high, std::min(f.layers, opencl::kMostGroups)},
                     {wide, high, 1}),
      arguments);
}

void launch_general(Launch& l) {
  const Shape& shape = l.out_shape(0);
  Arguments arguments = leading_arguments(l);
  const std::int64_t n = shape.elements();
  arguments.add(n);
  std::vector<Shape> strides;
  for (const Spec& s : l.problem().inputs) strides.push_back(broadcast_strides(s.shape, shape));
  for (int k = 0; k < Shape::kMaxRank; ++k) {
    const int axis = k - (Shape::kMaxRank - shape.rank());
    arguments.add(axis >= 0 ? shape[axis] : std::int64_t{1});
    for (const Shape& s : strides) arguments.add(axis >= 0 ? s[axis] : std::int64_t{0});
  }
  const OpDef& op = l.problem().op;
  opencl::Kernel& kernel = kernel_of(l, "general", op.name + "_general", [&](const Specs& in, DType out) { return kPrelude + general_kernel(op, in, out); });
  l.device().run(kernel, opencl::range1(round_up(n, kGroup), kGroup), arguments);
}

}  // namespace

std::string widened(DType dtype, const std::string& element) {
  return is_two_bytes(dtype) ? fmt::format("float_from_{}({})", to_string(dtype), element) : element;
}
std::string narrowed(DType dtype, const std::string& result) {
  return is_two_bytes(dtype) ? fmt::format("{}_from_float({})", to_string(dtype), result) : result;
}
std::string rounded(DType dtype, const std::string& result) { return widened(dtype, narrowed(dtype, result)); }

Folded fold(const Specs& inputs, const Shape& output) {
  // Neighbouring axes merge where every input either walks both densely or repeats over both.
  struct Axis {
    std::int64_t extent;
    std::vector<bool> repeats;
  };
  std::vector<Axis> axes;
  std::vector<Shape> strides;
  for (const Spec& s : inputs) strides.push_back(broadcast_strides(s.shape, output));
  for (int k = 0; k < output.rank(); ++k) {
    if (output[k] == 1) continue;
    Axis axis{output[k], {}};
    for (const Shape& s : strides) axis.repeats.push_back(s[k] == 0);
    if (!axes.empty() && axes.back().repeats == axis.repeats)
      axes.back().extent *= axis.extent;
    else
      axes.push_back(std::move(axis));
  }
  Folded f;
  f.possible = axes.size() <= 3;
  if (!f.possible) return f;
  axes.insert(axes.begin(), 3 - axes.size(), Axis{1, std::vector<bool>(inputs.size(), true)});
  f.layers = axes[0].extent;
  f.rows = axes[1].extent;
  f.columns = axes[2].extent;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::int64_t row = axes[2].repeats[i] ? 1 : f.columns, layer = axes[1].repeats[i] ? row : row * f.rows;
    f.column_constant.push_back(axes[2].repeats[i]);
    f.row_stride.push_back(axes[1].repeats[i] ? 0 : row);
    f.layer_stride.push_back(axes[0].repeats[i] ? 0 : layer);
  }
  return f;
}

const OpDef* ElementwiseLibrary::record(const ChainText& chain, const Specs& in, const Spec& out) {
  const auto& [title, statements, result, scalars] = chain;
  std::string key = fmt::format("{}{}->{}", statements, result, to_string(out.dtype));
  for (const Spec& s : in) key += fmt::format(",{}", to_string(s.dtype));
  auto it = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; });
  if (it == entries_.end()) {
    auto op = std::make_unique<OpDef>();
    op->name = fmt::format("fused{}_{}", entries_.size(), title.substr(0, title.find('+')));
    op->doc = "A fused chain: " + title + ".";
    op->infer = [](const Specs&, const Attributes& a) -> Specs { return {{a.shape("shape"), a.dtype("dtype")}}; };
    op->cost = elementwise_cost;
    const int members = 1 + static_cast<int>(std::count(title.begin(), title.end(), '+'));
    op->elementwise = Elementwise{result, scalars, statements, title, members, this};
    op->variants = elementwise_variants();
    for (std::size_t i = 0; i < in.size(); ++i) {
      op->inputs.push_back(fmt::format("x{}", i));
      if (in[i].dtype == out.dtype) op->may_reuse.push_back({0, static_cast<int>(i)});
    }
    entries_.push_back({key, scalars_of(in), out.dtype, {}, false, std::move(op)});
    it = std::prev(entries_.end());
  }
  const Folded folded = fold(in, out.shape);
  if (!folded.possible)
    it->general = true;
  else if (std::find(it->forms.begin(), it->forms.end(), folded.column_constant) == it->forms.end())
    it->forms.push_back(folded.column_constant);
  return it->op.get();
}

std::string ElementwiseLibrary::source() const {
  std::string text = kPrelude;
  for (const Entry& e : entries_) {
    for (const auto& form : e.forms) text += chunk_kernel(*e.op, e.signature, e.out, form) + item_kernel(*e.op, e.signature, e.out, form);
    if (e.general) text += general_kernel(*e.op, e.signature, e.out);
  }
  return text;
}

std::string ElementwiseLibrary::title() const {
  if (title_.empty()) title_ = fmt::format("fused_{:016x}", std::hash<std::string>()(source()));
  return title_;
}

Cost elementwise_cost(const Problem& p) {
  Cost cost{p.op.elementwise->flops * p.outputs[0].elements(), p.outputs[0].bytes()};
  for (const Spec& s : p.inputs) cost.bytes += s.bytes();
  return cost;
}

std::vector<Variant> elementwise_variants() {
  return {{.name = "chunks", .doc = "a block of rows and columns for each work-item", .target = Target::cpu, .declines = unless_folds, .launch = launch_chunks},
          {.name = "items", .doc = "one work-item an element of rows and columns", .declines = unless_folds, .launch = launch_items},
          {.name = "general", .doc = "one work-item an element, any broadcast", .launch = launch_general}};
}

}  // namespace gemel
