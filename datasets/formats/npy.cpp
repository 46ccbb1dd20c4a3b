#include "datasets/formats/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "engine/base/checked_bytes.h"
#include "engine/base/error.h"
#include "engine/base/files/git_lfs.h"

namespace gemel::datasets {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are read and written as they lie");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;

struct TypeRow {
  NpyType type;
  std::string_view name, descr;
  std::size_t bytes;
};
constexpr std::array<TypeRow, 7> kTypes{{{NpyType::float32, "float32", "<f4", 4},
                                         {NpyType::float64, "float64", "<f8", 8},
                                         {NpyType::float16, "float16", "<f2", 2},
                                         {NpyType::int32, "int32", "<i4", 4},
                                         {NpyType::int64, "int64", "<i8", 8},
                                         {NpyType::uint8, "uint8", "|u1", 1},
                                         {NpyType::boolean, "bool", "|b1", 1}}};
const TypeRow& row(NpyType type) { return kTypes[static_cast<std::size_t>(type)]; }

[[noreturn]] void fail(const std::string& file, const std::string& what) { throw DataError(fmt::format("npy: {}: {}", file, what)); }

/// Parses the header's Python literal, of the one form that the format has.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  NpyHeader parse() {
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      field(key);
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (position_ != text_.size()) malformed("nothing more");
    if (!descr_ || !row_major_ || !shape_) fail(file_, "the header lacks one of 'descr', 'fortran_order' and 'shape'");
    return {*descr_, *shape_, 0};
  }

 private:
  void field(const std::string& key) {
    if ((key == "descr" && descr_) || (key == "fortran_order" && row_major_) || (key == "shape" && shape_))
      fail(file_, fmt::format("the header has '{}' twice", key));
    if (key == "descr") {
      descr_ = type();
    } else if (key == "fortran_order") {
      if (boolean()) fail(file_, "the array is in Fortran order; accepted: row-major (numpy.ascontiguousarray)");
      row_major_ = true;
    } else if (key == "shape") {
      shape_ = tuple();
    } else {
      fail(file_, fmt::format("the header has the unknown key '{}'; accepted: descr, fortran_order, shape", key));
    }
  }
  NpyType type() {
    skip_space();
    if (peek() == '[') fail(file_, "the array is structured (a list of fields); accepted: one plain type");
    const std::string descr = quoted();
    for (const TypeRow& r : kTypes)
      if (descr == r.descr || (r.bytes == 1 && descr == fmt::format("<{}", r.descr.substr(1)))) return r.type;
    fail(file_, fmt::format("the type '{}' {}; accepted: <f4, <f8, <f2, <i4, <i8, |u1, |b1", descr,
                            descr.find('O') != std::string::npos ? "holds Python objects"
                            : descr.starts_with('>')             ? "is big-endian"
                                                                 : "is unknown"));
  }
  Shape tuple() {
    std::vector<std::int64_t> extents;
    expect('(');
    while (!accept(')')) {
      extents.push_back(number());
      if (static_cast<int>(extents.size()) > Shape::kMaxRank) fail(file_, fmt::format("the shape has more than {0} axes; accepted: 0..{0}", Shape::kMaxRank));
      if (accept(',')) continue;
      // Python reads (3) as a number: a tuple of one needs its comma.
      if (extents.size() == 1) malformed("','");
      expect(')');
      break;
    }
    return Shape(std::span<const std::int64_t>(extents));
  }
  std::int64_t number() {
    skip_space();
    std::int64_t value = 0;
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) fail(file_, "the shape has an extent that does not fit in 63 bits; accepted: 0..2^63 - 1");
    if (error != std::errc()) malformed("an extent");
    if (value < 0) fail(file_, fmt::format("the shape has the negative extent {}; accepted: 0 or more", value));
    position_ += static_cast<std::size_t>(end - begin);
    return value;
  }
  bool boolean() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.substr(position_).starts_with(word)) continue;
      position_ += word.size();
      return value;
    }
    malformed("True or False");
  }
  std::string quoted() {
    skip_space();
    const char quote = peek();
    if (quote != '\'' && quote != '"') malformed("a quoted string");
    const std::size_t end = text_.find(quote, ++position_);
    if (end == std::string_view::npos || end - position_ > 64) malformed("a short quoted string");
    std::string value(text_.substr(position_, end - position_));
    for (const char c : value)
      if (c < ' ' || c > '~' || c == '\\') malformed("printable ASCII");
    position_ = end + 1;
    return value;
  }
  char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }
  void skip_space() {
    while (peek() == ' ' || peek() == '\n') ++position_;
  }
  bool accept(char c) {
    skip_space();
    if (peek() != c) return false;
    ++position_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) malformed(fmt::format("'{}'", c));
  }
  [[noreturn]] void malformed(const std::string& expected) const {
    fail(file_, fmt::format("the header is malformed at its byte {}; expected: {}", position_, expected));
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t position_ = 0;
  std::optional<NpyType> descr_;
  std::optional<bool> row_major_;
  std::optional<Shape> shape_;
};

std::string_view descr_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "<f4";
    case DType::float16:
      return "<f2";
    case DType::int32:
      return "<i4";
    case DType::int64:
      return "<i8";
    case DType::boolean:
      return "|b1";
    case DType::bfloat16:
      break;
  }
  throw UsageError("write_npy: the format has no bfloat16; accepted: float32, float16, int32, int64, bool");
}

std::string header_of(const Spec& spec) {
  std::string shape;
  for (int i = 0; i < spec.shape.rank(); ++i) shape += fmt::format("{}{}", i ? ", " : "", spec.shape[i]);
  if (spec.shape.rank() == 1) shape += ',';
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr_of(spec.dtype), shape);
  const std::size_t before = kMagic.size() + 4, unpadded = before + text.size() + 1;
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  text += '\n';
  std::string out(kMagic);
  out += '\x01';
  out += '\x00';
  out += static_cast<char>(text.size() & 0xFF);
  out += static_cast<char>(text.size() >> 8);
  return out + text;
}

}  // namespace

std::string_view to_string(NpyType type) { return row(type).name; }
std::size_t size_of(NpyType type) { return row(type).bytes; }

NpyHeader read_npy_header(const SteadyFile& file) {
  constexpr std::size_t kMost = std::size_t{1} << 20;  // of a header: one of a plain array has some hundreds of bytes
  const std::string name = file.path().string();
  const auto size = static_cast<std::size_t>(file.bytes());
  std::vector<std::byte> begin(std::min(size, kMost));
  file.read(0, begin);
  if (const std::string pointer = git_lfs_pointer(file); !pointer.empty()) fail(name, pointer);
  if (!as_text(begin).starts_with(kMagic)) fail(name, fmt::format("no .npy file of {} bytes: it does not start with \\x93NUMPY", size));
  const auto truncated = [&](std::size_t needed) { fail(name, fmt::format("the file is truncated: it has {} bytes; expected: {} or more", size, needed)); };
  std::size_t offset = kMagic.size() + 2;
  if (size < offset) truncated(offset);
  const int major = static_cast<int>(begin[6]), minor = static_cast<int>(begin[7]);
  if (major < 1 || major > 3 || minor != 0) fail(name, fmt::format("format version {}.{}; accepted: 1.0, 2.0, 3.0", major, minor));
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  std::uint32_t length = 0;
  if (size < offset + length_bytes) truncated(offset + length_bytes);
  std::memcpy(&length, begin.data() + offset, length_bytes);
  offset += length_bytes;
  if (length > size - offset) truncated(offset + length);
  if (length > begin.size() - offset) fail(name, fmt::format("the header has {} bytes; accepted: up to {}", length, kMost));
  NpyHeader header = HeaderParser(as_text(begin).substr(offset, length), name).parse();
  header.data_offset = offset + length;
  const auto bytes = checked_bytes(header.shape.span(), size_of(header.type));
  if (!bytes) fail(name, fmt::format("the size of shape {} overflows", to_string(header.shape)));
  const std::size_t present = size - header.data_offset;
  if (present != static_cast<std::size_t>(*bytes))
    fail(name, fmt::format("the file has {} bytes of data; {} {} needs {}", present, to_string(header.type), to_string(header.shape), *bytes));
  return header;
}

std::vector<std::byte> NpyFile::data() const {
  std::vector<std::byte> out(static_cast<std::size_t>(file_.bytes()) - header_.data_offset);
  read(0, out);
  return out;
}

void write_npy(const std::filesystem::path& path, const Spec& spec, const std::function<void(FileWriter&)>& fill) {
  const std::string header = header_of(spec);
  write_file_atomically(path, [&](FileWriter& out) {
    out.write(header);
    fill(out);
    const std::int64_t given = out.written() - static_cast<std::int64_t>(header.size());
    if (given != spec.bytes())
      throw UsageError(fmt::format("write_npy: {}: {} bytes of data were given; {} needs {}", path.string(), given, to_string(spec), spec.bytes()));
  });
}

void write_npy(const std::filesystem::path& path, const Spec& spec, std::span<const std::byte> data) {
  write_npy(path, spec, [&](FileWriter& out) { out.write(data); });
}

}  // namespace gemel::datasets
