#include "engine/files/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include "engine/base/checked_bytes.h"
#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/hash.h"
#include "engine/files/foreign_formats.h"

namespace gemel {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::size_t kPrefixBytes = 8, kAlignment = 8;
constexpr const char* kMetadataKey = "__metadata__";

/// An element type of the format.
struct Type {
  std::string_view name;
  int bits;
  std::optional<DType> read_as;  // empty: foreign
};
constexpr std::array<Type, 22> kTypes{{{"F32", 32, DType::float32},
                                       {"F16", 16, DType::float16},
                                       {"BF16", 16, DType::bfloat16},
                                       {"F64", 64, DType::float32},
                                       {"I32", 32, DType::int32},
                                       {"I64", 64, DType::int64},
                                       {"BOOL", 8, DType::boolean},
                                       {"U8", 8, {}},
                                       {"I8", 8, {}},
                                       {"U16", 16, {}},
                                       {"I16", 16, {}},
                                       {"U32", 32, {}},
                                       {"U64", 64, {}},
                                       {"C64", 64, {}},
                                       {"F8_E4M3", 8, {}},
                                       {"F8_E5M2", 8, {}},
                                       {"F8_E4M3FNUZ", 8, {}},
                                       {"F8_E5M2FNUZ", 8, {}},
                                       {"F8_E8M0", 8, {}},
                                       {"F6_E2M3", 6, {}},
                                       {"F6_E3M2", 6, {}},
                                       {"F4", 4, {}}}};

/// Those that are read, and with foreign ones all.
std::string names_of_types(ForeignTensors foreign) {
  std::string out;
  for (const Type& t : kTypes)
    if (t.read_as || foreign == ForeignTensors::listed) out += fmt::format("{}{}", out.empty() ? "" : ", ", t.name);
  return out;
}

/// In which the engine's type is written: the first one that is read as it.
std::string_view format_name(DType dtype) {
  const auto* found = std::ranges::find(kTypes, std::optional(dtype), &Type::read_as);
  if (found == kTypes.end()) throw InternalError("safetensors: an element type without a name in the format");
  return found->name;
}

struct Entry {
  std::string name;
  const Type* type = nullptr;
  Shape shape;
  std::uint64_t begin = 0, end = 0;
};

/// Follows the header as it is parsed and accepts nothing but its grammar: one object of objects, whose fields are a
/// string and two arrays of natural numbers. Nothing nests deeper, so a hostile header costs no stack.
class HeaderHandler : public nlohmann::json::json_sax_t {
 public:
  HeaderHandler(std::string file, ForeignTensors foreign) : file_(std::move(file)), foreign_(foreign) {}

  std::vector<Entry> entries;
  FileMetadata metadata;

  bool start_object(std::size_t) override {
    if (depth_ >= 2 || in_array_) refuse("an object where none belongs");
    if (++depth_ == 2) fields_.clear();
    return true;
  }
  bool key(string_t& text) override {
    if (depth_ == 1) {
      if (!names_.insert(text).second) fail(fmt::format("tensor '{}' stands twice; accepted: each name once", text));
      in_metadata_ = text == kMetadataKey;
      name_ = text;
      entry_ = Entry{.name = text, .shape = {}};
    } else {
      if (!in_metadata_ && text != "dtype" && text != "shape" && text != "data_offsets") refuse(fmt::format("an unknown field '{}'", text));
      if (!fields_.insert(text).second) refuse(fmt::format("the field '{}' twice", text));
    }
    key_ = text;
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ == 2 && in_metadata_) {
      metadata.emplace(key_, text);
    } else if (depth_ == 2 && key_ == "dtype" && !in_array_) {
      take_dtype(text);
    } else {
      refuse("text where none belongs");
    }
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_metadata_ || key_ == "dtype" || in_array_) refuse("an array where none belongs");
    in_array_ = true;
    numbers_.clear();
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!in_array_) refuse("a number where none belongs");
    if (numbers_.size() == Shape::kMaxRank) refuse(fmt::format("more than {} numbers in '{}'", Shape::kMaxRank, key_));
    numbers_.push_back(value);
    return true;
  }
  bool end_array() override {
    in_array_ = false;
    if (key_ == "shape") {
      take_shape();
    } else {
      if (numbers_.size() != 2) refuse(fmt::format("{} numbers in 'data_offsets' instead of 2", numbers_.size()));
      entry_.begin = numbers_[0];
      entry_.end = numbers_[1];
    }
    return true;
  }
  bool end_object() override {
    if (depth_-- == 2 && !in_metadata_) {
      for (const char* field : {"dtype", "shape", "data_offsets"})
        if (!fields_.contains(field)) refuse(fmt::format("no '{}'", field));
      entries.push_back(std::move(entry_));
    }
    return true;
  }
  bool number_integer(number_integer_t value) override { refuse(fmt::format("the negative number {}", value)); }
  bool number_float(number_float_t, const string_t& text) override { refuse(fmt::format("the number {}, which is not in 0..2^64-1", text.substr(0, 40))); }
  bool boolean(bool) override { refuse("true or false where none belongs"); }
  bool null() override { refuse("null where none belongs"); }
  bool binary(binary_t&) override { refuse("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    fail(fmt::format("the header is no valid JSON at its byte {}", position));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw DataError(fmt::format("safetensors: {}: {}", file_, what)); }
  [[noreturn]] void refuse(const std::string& what) const {
    if (names_.empty()) fail(fmt::format("the header has {}; accepted: one object of tensors", what));
    fail(fmt::format("tensor '{}' has {}; accepted: dtype, shape and data_offsets", name_, what));
  }
  void take_dtype(const std::string& text) {
    entry_.type = std::ranges::find(kTypes, std::string_view(text), &Type::name);
    if (entry_.type == kTypes.end() || !(entry_.type->read_as || foreign_ == ForeignTensors::listed))
      fail(fmt::format("tensor '{}' has dtype {}; accepted: {}", name_, text, names_of_types(foreign_)));
  }
  void take_shape() {
    for (const std::uint64_t extent : numbers_) {
      if (!std::in_range<std::int64_t>(extent)) refuse(fmt::format("the extent {}", extent));
      entry_.shape.push_back(static_cast<std::int64_t>(extent));
    }
  }

  std::string file_, name_, key_;
  ForeignTensors foreign_;
  std::unordered_set<std::string> names_;
  std::set<std::string> fields_;
  std::vector<std::uint64_t> numbers_;
  Entry entry_;
  int depth_ = 0;
  bool in_metadata_ = false, in_array_ = false;
};

/// The header's text, with every length checked against the file.
std::string header_text(const SteadyFile& file) {
  const auto fail = [&](const std::string& what) { throw DataError(fmt::format("safetensors: {}: {}", file.path().string(), what)); };
  const auto size = static_cast<std::uint64_t>(file.bytes());
  std::uint64_t length = 0;
  if (size < kPrefixBytes) fail(fmt::format("the file has {} bytes; expected: 8 or more", size));
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  std::byte first{};  // of the header
  if (size > kPrefixBytes) file.read(kPrefixBytes, {&first, 1});
  if (length > kMaxHeaderBytes || first != std::byte{'{'})
    if (const auto other = known_otherwise(file)) fail(*other);
  if (length > kMaxHeaderBytes) fail(fmt::format("the header's length is given as {} bytes; accepted: up to {}", length, kMaxHeaderBytes));
  if (length > size - kPrefixBytes) fail(fmt::format("the file is truncated: it has {} bytes and its header alone needs {}", size, length + kPrefixBytes));
  std::string text(length, '\0');
  file.read(kPrefixBytes, std::as_writable_bytes(std::span(text)));
  if (!text.starts_with('{')) fail("the header does not start with '{'");
  // The parser takes a NUL for the end, and what follows would go unseen.
  if (text.find('\0') != std::string::npos) fail("the header holds a NUL byte; accepted: JSON");
  return text;
}

/// Every tensor's bytes match its spec, and together they cover the data once, without a hole.
void check_layout(std::span<const Entry> entries, std::uint64_t data_bytes, const std::string& file) {
  for (const Entry& e : entries) {
    const auto fail = [&](const std::string& what) { throw DataError(fmt::format("safetensors: {}: tensor '{}' {}", file, e.name, what)); };
    constexpr int kByte = 8;
    const auto bits = checked_bytes(e.shape.span(), static_cast<std::size_t>(e.type->bits));
    if (!bits) fail(fmt::format("has shape {}, whose size overflows", to_string(e.shape)));
    if (*bits % kByte != 0) fail(fmt::format("has shape {}, whose elements of {} bits fill no whole bytes", to_string(e.shape), e.type->bits));
    const auto needed = static_cast<std::uint64_t>(*bits / kByte);
    if (e.begin > e.end) fail(fmt::format("has data_offsets [{}, {}], which run backwards", e.begin, e.end));
    if (e.end - e.begin != needed)
      fail(fmt::format("has {} bytes at data_offsets [{}, {}]; {} {} needs {}", e.end - e.begin, e.begin, e.end, e.type->name, to_string(e.shape), needed));
    if (e.end > data_bytes) fail(fmt::format("ends at byte {} of the data, and the file has {}: it is truncated", e.end, data_bytes));
  }
  std::vector<const Entry*> order;
  for (const Entry& e : entries) order.push_back(&e);
  std::ranges::sort(order, {}, [](const Entry* e) { return std::pair(e->begin, e->end); });
  std::uint64_t covered = 0;
  for (const Entry* e : order) {
    if (e->begin != covered)
      throw DataError(fmt::format("safetensors: {}: tensor '{}' begins at byte {} of the data, which {} byte {}", file, e->name, e->begin,
                                  e->begin < covered ? "overlaps the tensor up to" : "leaves a hole from", covered));
    covered = e->end;
  }
  if (covered != data_bytes) throw DataError(fmt::format("safetensors: {}: the file has {} bytes of data; its tensors take {}", file, data_bytes, covered));
}

/// What stands before the data: the length, and the header padded with spaces to the alignment.
std::string header_of(const nlohmann::ordered_json& header) {
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw UsageError("write_safetensors: a name or the metadata is not valid UTF-8");
  }
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  if (text.size() > kMaxHeaderBytes)
    throw UsageError(fmt::format("write_safetensors: the header takes {} bytes; accepted: up to {}", text.size(), kMaxHeaderBytes));
  const std::uint64_t length = text.size();
  std::string prefix(kPrefixBytes, '\0');
  std::memcpy(prefix.data(), &length, kPrefixBytes);
  return prefix + text;
}

void check_given(std::span<const NamedTensor> tensors) {
  std::unordered_set<std::string_view> names;
  for (const NamedTensor& t : tensors) {
    if (t.name == kMetadataKey || !names.insert(t.name).second)
      throw UsageError(fmt::format("write_safetensors: the name '{}' is {}", t.name, t.name == kMetadataKey ? "reserved" : "given twice"));
    if (static_cast<std::int64_t>(t.data.size()) != t.spec.bytes())
      throw UsageError(fmt::format("write_safetensors: tensor '{}' has {} bytes; {} needs {}", t.name, t.data.size(), to_string(t.spec), t.spec.bytes()));
  }
}

/// Rounds doubles to floats, which take the first half of their place. @return that half
std::span<const std::byte> rounded(std::span<std::byte> doubles) {
  const std::size_t count = doubles.size() / sizeof(double);
  for (std::size_t i = 0; i < count; ++i) {
    double wide;
    std::memcpy(&wide, doubles.data() + i * sizeof wide, sizeof wide);
    const auto narrow = static_cast<float>(wide);
    std::memcpy(doubles.data() + i * sizeof narrow, &narrow, sizeof narrow);
  }
  return doubles.first(count * sizeof(float));
}

}  // namespace

SafetensorsHeader::SafetensorsHeader(const std::filesystem::path& path, ForeignTensors foreign) : file_(path) {
  const std::string name = path.string(), text = header_text(file_);
  HeaderHandler header(name, foreign);
  nlohmann::json::sax_parse(text, &header);
  data_offset_ = static_cast<std::int64_t>(kPrefixBytes + text.size());
  check_layout(header.entries, static_cast<std::uint64_t>(file_.bytes() - data_offset_), name);
  metadata_ = std::move(header.metadata);
  for (Entry& e : header.entries) {
    if (!e.type->read_as) {
      foreign_.push_back({std::move(e.name), e.shape, e.type->name});
      continue;
    }
    tensors_.push_back({std::move(e.name), {e.shape, *e.type->read_as}});
    places_.push_back({e.begin, e.type->name == "F64"});
  }
}

SafetensorsFile::SafetensorsFile(SafetensorsHeader header) : header_(std::move(header)) {
  const SteadyFile& file = header_.file_;
  const auto size = static_cast<std::size_t>(file.bytes() - header_.data_offset_);
  data_ = std::make_unique_for_overwrite<std::byte[]>(size);
  const std::span<std::byte> data(data_.get(), size);
  file.read(header_.data_offset_, data);
  file.check_content_unchanged();
  for (std::size_t i = 0; i < header_.tensors_.size(); ++i) {
    const auto& [name, spec] = header_.tensors_[i];
    const auto& [begin, is_double] = header_.places_[i];
    by_name_.emplace(name, i);
    const auto bytes = static_cast<std::size_t>(spec.bytes());
    tensors_.push_back({name, spec, is_double ? rounded(data.subspan(begin, 2 * bytes)) : data.subspan(begin, bytes)});
  }
}

const NamedTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

std::string checksum_of(std::span<const NamedTensor> tensors, const FileMetadata& metadata) {
  std::uint64_t sum = 0;
  for (const NamedTensor& t : tensors) sum += hash_of(t.data, hash_of(t.name + to_string(t.spec)));
  for (const auto& [key, text] : metadata) sum += hash_of(text, hash_of(key + "="));
  return fmt::format("{:016x}", sum);
}

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors, const FileMetadata& metadata) {
  check_given(tensors);
  // Larger elements lie first, so that every tensor is aligned to its element although nothing may lie between two.
  std::vector<std::size_t> layout(tensors.size());
  std::iota(layout.begin(), layout.end(), std::size_t{0});
  std::ranges::stable_sort(layout, std::greater{}, [&](std::size_t i) { return size_of(tensors[i].spec.dtype); });
  std::vector<std::size_t> begin(tensors.size());
  std::size_t end = 0;
  for (const std::size_t i : layout) {
    begin[i] = end;
    end += tensors[i].data.size();
  }
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  // Pushed, not looked up: an ordered object searches its keys one by one.
  auto& members = header.get_ref<nlohmann::ordered_json::object_t&>();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    members.emplace_back(tensors[i].name,
                         nlohmann::ordered_json{{"dtype", format_name(tensors[i].spec.dtype)},
                                                {"shape", std::vector<std::int64_t>(tensors[i].spec.shape.begin(), tensors[i].spec.shape.end())},
                                                {"data_offsets", {begin[i], begin[i] + tensors[i].data.size()}}});
  const std::string text = header_of(header);
  write_file_atomically(path, [&](FileWriter& out) {
    out.write(text);
    for (const std::size_t i : layout) out.write(tensors[i].data);
  });
}

}  // namespace gemel
