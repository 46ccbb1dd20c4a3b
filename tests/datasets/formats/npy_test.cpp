// Arrays in NumPy's format, read and written.
#include "datasets/formats/npy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "datasets/pictures/picture_dataset.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel::datasets {
namespace {

using gemel::testing::message_of, gemel::testing::read_text, gemel::testing::TemporaryFolder, gemel::testing::write_text;

std::string file_of(const std::string& header, const std::string& data, int version = 1) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out += static_cast<char>(header.size() >> (8 * i));
  return out + header + data;
}
std::string dict(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
}

template <class T>
void write_array(const std::filesystem::path& path, const Spec& spec, const std::vector<T>& values) {
  write_npy(path, spec, bytes_of(std::span<const T>(values)));
}

TEST(Npy, arrays_survive_a_round_trip) {
  const TemporaryFolder folder;
  const std::vector<float> values{1.5f, -2, 3, 4, 5, 6};
  for (const Shape& shape : {Shape{2, 3}, Shape{6}, Shape{1, 2, 1, 3}, Shape{2, 3, 1, 1, 1, 1, 1, 1}}) {
    write_array(folder / "a.npy", {shape, DType::float32}, values);
    const NpyFile file(folder / "a.npy");
    EXPECT_EQ(file.type(), NpyType::float32);
    EXPECT_EQ(file.shape(), shape);
    EXPECT_TRUE(std::ranges::equal(file.data(), bytes_of(std::span<const float>(values))));
  }
  write_array<std::int64_t>(folder / "scalar.npy", i64({}), {7});
  EXPECT_EQ(NpyFile(folder / "scalar.npy").shape(), Shape{});
  write_array<float>(folder / "empty.npy", f32({0, 3}), {});
  EXPECT_EQ(NpyFile(folder / "empty.npy").shape(), (Shape{0, 3}));
}

TEST(Npy, the_writer_produces_numpys_own_bytes) {
  const TemporaryFolder folder;
  write_array<std::int64_t>(folder / "a.npy", i64({2}), {1, 2});
  const std::string text = read_text(folder / "a.npy");
  // numpy.save of numpy.array([1, 2]), as numpy 2 writes it.
  std::string header("\x93NUMPY\x01\x00v\x00{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", 67);
  header.append(127 - header.size(), ' ');
  EXPECT_EQ(text.substr(0, 128), header + "\n");
  EXPECT_EQ(text.size(), 128u + 16u);
}

TEST(Npy, large_data_may_be_written_in_pieces) {
  const TemporaryFolder folder;
  const std::vector<float> row{1, 2};
  const auto rows = [&](int n) {
    return [&row, n](FileWriter& out) {
      for (int i = 0; i < n; ++i) out.write(bytes_of(std::span<const float>(row)));
    };
  };
  write_npy(folder / "a.npy", f32({3, 2}), rows(3));
  EXPECT_EQ(NpyFile(folder / "a.npy").data().size(), 24u);
  EXPECT_EQ(message_of<UsageError>([&] {
              write_npy(folder / "b.npy", f32({3, 2}), rows(2));
            }),
            "write_npy: " + (folder / "b.npy").string() + ": 16 bytes of data were given; float32 [3, 2] needs 24");
  EXPECT_FALSE(std::filesystem::exists(folder / "b.npy"));
  EXPECT_THROW(write_npy(folder / "c.npy", {Shape{1}, DType::bfloat16}, std::span<const std::byte>()), UsageError);
}

TEST(Npy, versions_types_and_spellings_that_numpy_has_are_read) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& content) {
    write_text(folder / "a.npy", content);
    return NpyFile(folder / "a.npy");
  };
  for (const int version : {1, 2, 3}) EXPECT_EQ(read(file_of(dict("<f4", "(1,)"), "1234", version)).shape(), Shape{1});
  EXPECT_EQ(read(file_of(dict("<f8", "()"), "12345678")).type(), NpyType::float64);
  EXPECT_EQ(read(file_of(dict("<f2", "()"), "12")).type(), NpyType::float16);
  EXPECT_EQ(read(file_of(dict("<i4", "()"), "1234")).type(), NpyType::int32);
  EXPECT_EQ(read(file_of(dict("|u1", "(2, 1)"), "12")).type(), NpyType::uint8);
  EXPECT_EQ(read(file_of(dict("|b1", "(1,)"), "1")).type(), NpyType::boolean);
  EXPECT_EQ(read(file_of("{\"shape\":(1,2),\"fortran_order\":False,\"descr\":\"<f4\"}", "12345678")).shape(), (Shape{1, 2}));
}

struct HostileNpy {
  const char* title;
  std::string content;
  const char* expected;
};

std::vector<HostileNpy> hostile_files() {
  const std::string good = dict("<f4", "(2,)");
  return {
      {"empty", "", "no .npy file of 0 bytes"},
      {"another_format", "PK\x03\x04 and so on", "does not start with"},
      {"only_magic", "\x93NUMPY", "truncated: it has 6 bytes"},
      {"version_0", file_of(good, "12345678", 0), "format version 0.0; accepted: 1.0, 2.0, 3.0"},
      {"version_4", file_of(good, "12345678", 4), "format version 4.0"},
      {"no_header_length", std::string("\x93NUMPY\x02\x00\x10\x00", 10), "truncated: it has 10 bytes; expected: 12"},
      {"header_beyond_the_file", std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14), "truncated"},
      {"empty_header", file_of("", ""), "malformed at its byte 0; expected: '{'"},
      {"no_keys", file_of("{}", ""), "lacks one of"},
      {"no_shape", file_of("{'descr': '<f4', 'fortran_order': False}", ""), "lacks one of"},
      {"key_twice", file_of("{'descr': '<f4', 'descr': '<f4'}", ""), "has 'descr' twice"},
      {"unknown_key", file_of("{'x': 1}", ""), "the unknown key 'x'"},
      {"code", file_of("{'descr': __import__('os')}", ""), "expected: a quoted string"},
      {"escape", file_of("{'de\\x73cr': '<f4'}", ""), "expected: printable ASCII"},
      {"endless_string", file_of("{'descr", ""), "expected: a short quoted string"},
      {"no_colon", file_of("{'descr' '<f4'}", ""), "expected: ':'"},
      {"trailing_text", file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", "12345678"), "expected: nothing more"},
      {"fortran_order", file_of("{'descr': '<f4', 'fortran_order': True, 'shape': (2,)}", "12345678"),
       "in Fortran order; accepted: row-major (numpy.ascontiguousarray)"},
      {"order_as_number", file_of("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", "12345678"), "expected: True or False"},
      {"objects", file_of(dict("|O", "(2,)"), "12345678"), "'|O' holds Python objects"},
      {"big_endian", file_of(dict(">f4", "(2,)"), "12345678"), "'>f4' is big-endian"},
      {"unknown_type", file_of(dict("<c8", "(1,)"), "12345678"), "'<c8' is unknown; accepted: <f4, <f8, <f2, <i4, <i8, |u1, |b1"},
      {"structured", file_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", "12345678"), "structured"},
      {"shape_a_number", file_of(dict("<f4", "2"), "12345678"), "expected: '('"},
      {"shape_without_comma", file_of(dict("<f4", "(2)"), "12345678"), "expected: ','"},
      {"shape_of_text", file_of(dict("<f4", "('a',)"), "12345678"), "expected: an extent"},
      {"shape_cut", file_of("{'shape': (2,", ""), "expected: an extent"},
      {"negative", file_of(dict("<f4", "(-2,)"), "12345678"), "negative extent -2"},
      {"extent_overflow", file_of(dict("<f4", "(9223372036854775808,)"), ""), "does not fit in 63 bits"},
      {"product_overflow", file_of(dict("<f4", "(4294967296, 4294967296)"), ""), "size of shape [4294967296, 4294967296] overflows"},
      {"product_overflow_beside_zero", file_of(dict("<f4", "(4294967296, 4294967296, 0)"), ""), "overflows"},
      {"huge", file_of(dict("<f4", "(1000000000000,)"), "12345678"), "has 8 bytes of data; float32 [1000000000000] needs 4000000000000"},
      {"nine_axes", file_of(dict("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "1234"), "more than 8 axes"},
      {"truncated_data", file_of(good, "1234567"), "has 7 bytes of data; float32 [2] needs 8"},
      {"trailing_data", file_of(good, "123456789"), "has 9 bytes of data; float32 [2] needs 8"},
  };
}

class NpyHostile : public ::testing::TestWithParam<HostileNpy> {};

TEST_P(NpyHostile, file_is_refused_with_its_name_and_the_reason) {
  const TemporaryFolder folder;
  write_text(folder / "a.npy", GetParam().content);
  const std::string message = message_of<DataError>([&] { NpyFile(folder / "a.npy"); });
  EXPECT_EQ(message.rfind("npy: " + (folder / "a.npy").string() + ": ", 0), 0u) << message;
  EXPECT_NE(message.find(GetParam().expected), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(, NpyHostile, ::testing::ValuesIn(hostile_files()), [](const auto& tested) { return std::string(tested.param.title); });

class NpyDatasetTest : public ::testing::Test {
 protected:
  void write_split(const char* prefix, const std::vector<std::int64_t>& labels, std::int64_t pictures) {
    std::vector<float> pixels(static_cast<std::size_t>(pictures * 2 * 2 * 3));
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i) - 5;
    write_array(folder_.path() / (std::string(prefix) + "images.npy"), f32({pictures, 2, 2, 3}), pixels);
    write_array(folder_.path() / (std::string(prefix) + "labels.npy"), i64({static_cast<std::int64_t>(labels.size())}), labels);
  }
  Splits open(std::int64_t classes = 0) { return open_dataset({.name = "npy", .data = folder_.path(), .classes = classes}); }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  TemporaryFolder folder_;
};

TEST_F(NpyDatasetTest, pictures_come_as_they_are_with_channels_innermost) {
  write_split("", {1, 0, 2}, 3);
  const Splits splits = open();
  EXPECT_EQ(splits.validation, nullptr);
  EXPECT_EQ(splits.train->size(), 3);
  EXPECT_EQ(splits.train->classes(), 3);
  EXPECT_EQ(splits.train->shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(splits.train->label(2), 2);
  std::vector<float> out(12);
  splits.train->copy(1, {}, out);
  EXPECT_EQ(out, (std::vector<float>{7, 13, 8, 14, 9, 15, 10, 16, 11, 17, 12, 18}));
}

TEST_F(NpyDatasetTest, both_splits_share_their_classes) {
  write_split("", {1, 0}, 2);
  write_split("val_", {4}, 1);
  const Splits splits = open();
  EXPECT_EQ(splits.train->classes(), 5);
  EXPECT_EQ(splits.validation->classes(), 5);
  EXPECT_EQ(open(7).train->classes(), 7);
}

TEST_F(NpyDatasetTest, wrong_labels_and_shapes_are_named) {
  write_split("", {0, 3, 1}, 3);
  EXPECT_EQ(message_of<DataError>([&] { open(3); }), "npy: " + path("labels.npy") + ": record 1 (from 0) has label 3; accepted: 0..2");
  write_split("", {0, 0, -1}, 3);
  EXPECT_EQ(message_of<DataError>([&] { open(); }), "npy: " + path("labels.npy") + ": record 2 (from 0) has label -1; accepted: 0..999999");
  write_split("", {0, 0}, 3);
  EXPECT_EQ(message_of<DataError>([&] { open(); }),
            "npy: " + path("labels.npy") + " has 2 labels; " + path("images.npy") + " has 3 pictures: accepted: as many");
  write_array<float>(folder_ / "labels.npy", f32({3}), {0, 0, 0});
  EXPECT_EQ(message_of<DataError>([&] { open(); }), "npy: " + path("labels.npy") + ": the array is float32 [3]; accepted: int64 [N]");
  write_split("", {}, 0);
  EXPECT_EQ(message_of<DataError>([&] { open(); }), "npy: " + path("images.npy") + ": the array [0, 2, 2, 3] is empty; accepted: one picture or more");
}

TEST_F(NpyDatasetTest, missing_files_are_named) {
  EXPECT_EQ(message_of<DataError>([&] { open(); }), "read: cannot open " + path("images.npy") + ": No such file or directory");
  write_split("", {0}, 1);
  write_split("val_", {0}, 1);
  std::filesystem::remove(folder_ / "val_labels.npy");
  EXPECT_EQ(message_of<DataError>([&] { open(); }),
            "npy: " + folder_.path().string() + " has val_images.npy without val_labels.npy; accepted: both or neither");
}

}  // namespace
}  // namespace gemel::datasets
