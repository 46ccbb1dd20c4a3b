// Safetensors files: round trips, every element type, and damaged ones.
#include "engine/files/safetensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/base/dtype_conversion.h"
#include "engine/base/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel {
namespace {

using testing::message_of, testing::read_text, testing::TemporaryFolder, testing::write_text;

std::string file_of(const std::string& header, const std::string& data) {
  std::string out(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(out.data(), &length, 8);
  return out + header + data;
}

std::vector<std::byte> counted(std::size_t n) {
  std::vector<std::byte> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>(i * 7 + 1);
  return out;
}

TEST(Safetensors, every_dtype_survives_a_round_trip_in_order) {
  const TemporaryFolder folder;
  const std::vector<std::byte> bytes = counted(1000);
  const auto part = [&](std::size_t from, std::size_t n) { return std::span(bytes).subspan(from, n); };
  const std::vector<NamedTensor> given{{"flags", b8({3}), part(0, 3)},
                                       {"conv.weight", f32({2, 3, 1, 1}), part(8, 24)},
                                       {"num_batches_tracked", i64({}), part(40, 8)},
                                       {"half", {Shape{5}, DType::float16}, part(50, 10)},
                                       {"empty", f32({0, 4}), {}},
                                       {"brain", {Shape{1, 2}, DType::bfloat16}, part(70, 4)},
                                       {"größe \"n\"\\", i32({2}), part(80, 8)}};
  write_safetensors(folder / "w.safetensors", given, {{"format", "pt"}, {"made by", "a test"}});
  const SafetensorsFile file(folder / "w.safetensors");
  ASSERT_EQ(file.tensors().size(), given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    const NamedTensor& read = file.tensors()[i];
    EXPECT_EQ(read.name, given[i].name);
    EXPECT_EQ(read.spec, given[i].spec) << read.name;
    EXPECT_TRUE(std::ranges::equal(read.data, given[i].data)) << read.name;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.data.data()) % size_of(read.spec.dtype), 0u) << read.name;
  }
  EXPECT_EQ(file.find("half"), &file.tensors()[3]);
  EXPECT_EQ(file.find("hal"), nullptr);
  EXPECT_EQ(file.metadata(), (FileMetadata{{"format", "pt"}, {"made by", "a test"}}));
}

TEST(Safetensors, a_written_file_has_an_aligned_header_and_the_metadata_that_torch_expects) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "ab", "abc", "abcd", "abcdefgh"}) {
    const std::vector<std::byte> bytes = counted(4);
    write_safetensors(folder / "w", std::vector<NamedTensor>{{name, f32({1}), bytes}});
    const std::string text = read_text(folder / "w");
    std::uint64_t length = 0;
    std::memcpy(&length, text.data(), 8);
    EXPECT_EQ(length % 8, 0u);
    const auto header = nlohmann::json::parse(text.substr(8, length));
    EXPECT_EQ(header.at("__metadata__").at("format"), "pt");
    EXPECT_EQ(header.at(name).at("data_offsets"), (std::vector<int>{0, 4}));
    EXPECT_EQ(text.size(), 8 + length + 4);
  }
}

TEST(Safetensors, a_file_of_no_tensors_is_valid) {
  const TemporaryFolder folder;
  write_safetensors(folder / "w", {});
  EXPECT_TRUE(SafetensorsFile(folder / "w").tensors().empty());
}

TEST(Safetensors, a_header_padded_with_spaces_and_out_of_order_is_read) {
  const TemporaryFolder folder;
  write_text(folder / "w", file_of(R"({"b":{"dtype":"BOOL","shape":[2],"data_offsets":[1,3]},)"
                                   R"("a":{"shape":[1],"data_offsets":[0,1],"dtype":"BOOL"}}      )",
                                   "xyz"));
  const SafetensorsFile file(folder / "w");
  EXPECT_EQ(file.tensors()[0].name, "b");
  EXPECT_EQ(file.find("a")->data[0], std::byte{'x'});
  EXPECT_EQ(file.find("b")->data[1], std::byte{'z'});
}

std::string changed_file(const std::filesystem::path& path, const std::string& how) {
  return "read: " + path.string() + " has changed since it was opened: " + how + "; accepted: data that stay as they are while they are in use";
}

TEST(Safetensors, what_was_read_stays_whatever_becomes_of_the_file) {
  const TemporaryFolder folder;
  const std::vector<std::byte> bytes = counted(100'000);
  write_safetensors(folder / "w", std::vector<NamedTensor>{{"w", f32({25'000}), bytes}});
  const SafetensorsFile file(folder / "w");
  std::filesystem::resize_file(folder / "w", 100);  // of a mapped file the pages behind its end are gone
  EXPECT_TRUE(std::ranges::equal(file.find("w")->data, bytes));
}

TEST(Safetensors, a_file_that_changes_before_its_data_are_read_is_named_and_one_that_is_replaced_is_read) {
  const TemporaryFolder folder;
  const std::vector<std::byte> bytes = counted(4000);
  const auto write = [&] { write_safetensors(folder / "w", std::vector<NamedTensor>{{"w", f32({1000}), bytes}}); };
  write();
  const std::string size = std::to_string(std::filesystem::file_size(folder / "w"));
  SafetensorsHeader shrunk(folder / "w");
  std::filesystem::resize_file(folder / "w", 100);
  EXPECT_EQ(message_of<DataError>([&] { SafetensorsFile file(std::move(shrunk)); }), changed_file(folder / "w", "it had " + size + " bytes, and has 100"));
  write();
  SafetensorsHeader replaced(folder / "w");
  write();
  EXPECT_TRUE(std::ranges::equal(SafetensorsFile(std::move(replaced)).find("w")->data, bytes)) << "its content is whole";
}

TEST(Safetensors, a_header_tells_names_and_specs_of_data_that_would_not_fit_in_memory) {
  const TemporaryFolder folder;
  const std::string header = R"({"__metadata__":{"a":"b"},"w":{"dtype":"F32","shape":[1024,1073741824],"data_offsets":[0,4398046511104]}})";
  write_text(folder / "w", file_of(header, ""));
  std::error_code refused;
  std::filesystem::resize_file(folder / "w", 8 + header.size() + (std::uintmax_t{1} << 42), refused);
  if (refused) GTEST_SKIP() << "this file system has no files of 4 TiB, which take no room";
  const SafetensorsHeader read(folder / "w");
  ASSERT_EQ(read.tensors().size(), 1u);
  EXPECT_EQ(read.tensors()[0].name, "w");
  EXPECT_EQ(read.tensors()[0].spec, f32({1024, 1073741824}));
  EXPECT_EQ(read.metadata(), (FileMetadata{{"a", "b"}}));
}

struct Hostile {
  const char* title;
  std::string content;
  const char* expected;
};

std::string entry(const std::string& body) { return R"({"w":{)" + body + "}}"; }

std::vector<Hostile> hostile_files() {
  const std::string good = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  const std::string deep(200000, '[');
  return {
      {"empty", "", "has 0 bytes; expected: 8 or more"},
      {"short", "1234567", "has 7 bytes"},
      {"huge_header", std::string("\x01\xe1\xf5\x05\0\0\0\0", 8), "given as 100000001 bytes; accepted: up to 100000000"},
      {"largest_header", std::string(8, '\xff'), "given as 18446744073709551615 bytes"},
      {"truncated_header", std::string("\x40\0\0\0\0\0\0\0{}", 10), "truncated: it has 10 bytes and its header alone needs 72"},
      {"empty_header", file_of("", ""), "does not start with '{'"},
      {"bom", file_of("\xef\xbb\xbf{}", ""), "does not start with '{'"},
      {"an_array", file_of("[1]", ""), "does not start with '{'"},
      {"nul", file_of(std::string("{}\0x", 4), ""), "NUL"},
      {"not_json", file_of("{\"w\":", ""), "no valid JSON at its byte"},
      {"trailing", file_of("{} {}", ""), "no valid JSON"},
      {"invalid_utf8", file_of("{\"\xff\":{}}", ""), "no valid JSON"},
      {"duplicate_name", file_of("{\"w\":{" + good + "},\"w\":{" + good + "}}", "1234"), "tensor 'w' stands twice"},
      {"duplicate_field", file_of(entry(good + R"(,"dtype":"F32")"), "1234"), "tensor 'w' has the field 'dtype' twice"},
      {"duplicate_metadata", file_of(R"({"__metadata__":{"a":"b","a":"c"}})", ""), "the field 'a' twice"},
      {"metadata_number", file_of(R"({"__metadata__":{"a":1}})", ""), "'__metadata__' has a number where none belongs"},
      {"metadata_text", file_of(R"({"__metadata__":"a"})", ""), "text where none belongs"},
      {"deep_arrays", file_of("{\"w\":" + deep, ""), "an array where none belongs"},
      {"deep_objects", file_of(R"({"a":{"dtype":{"b":{"c":{}}}}})", ""), "tensor 'a' has an object where none belongs"},
      {"array_of_array", file_of(entry(R"("shape":[[1]])"), ""), "an array where none belongs"},
      {"object_in_array", file_of(entry(R"("shape":[{}])"), ""), "an object where none belongs"},
      {"null_entry", file_of(R"({"w":null})", ""), "null where none belongs"},
      {"true_dtype", file_of(entry(R"("dtype":true)"), ""), "true or false"},
      {"text_in_shape", file_of(entry(R"("shape":["1"])"), ""), "text where none belongs"},
      {"unknown_field", file_of(entry(good + R"(,"x":1)"), "1234"), "an unknown field 'x'"},
      {"no_dtype", file_of(entry(R"("shape":[1],"data_offsets":[0,4])"), "1234"), "tensor 'w' has no 'dtype'"},
      {"no_shape", file_of(entry(R"("dtype":"F32","data_offsets":[0,4])"), "1234"), "no 'shape'"},
      {"no_offsets", file_of(entry(R"("dtype":"F32","shape":[1])"), "1234"), "no 'data_offsets'"},
      {"three_offsets", file_of(entry(R"("data_offsets":[0,4,4])"), ""), "3 numbers in 'data_offsets' instead of 2"},
      {"unknown_dtype", file_of(entry(R"("dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4])"), "1234"),
       "tensor 'w' has dtype F8_E4M3; accepted: F32, F16, BF16, F64, I32, I64, BOOL"},
      {"negative_extent", file_of(entry(R"("shape":[-1])"), ""), "the negative number -1"},
      {"fractional_extent", file_of(entry(R"("shape":[1.5])"), ""), "the number 1.5"},
      {"extent_over_64_bits", file_of(entry(R"("shape":[18446744073709551616])"), ""), "the number 18446744073709551616"},
      {"extent_over_63_bits", file_of(entry(R"("shape":[18446744073709551615])"), ""), "the extent 18446744073709551615"},
      {"nine_axes", file_of(entry(R"("shape":[1,1,1,1,1,1,1,1,1])"), ""), "more than 8 numbers in 'shape'"},
      {"overflow", file_of(entry(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), ""), "whose size overflows"},
      {"overflow_beside_zero", file_of(entry(R"("dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0])"), ""), "whose size overflows"},
      {"backwards", file_of(entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), "1234"), "run backwards"},
      {"wrong_length", file_of(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), "1234"), "has 4 bytes at data_offsets [0, 4]; F32 [2] needs 8"},
      {"truncated_data", file_of(entry(good), "123"), "ends at byte 4 of the data, and the file has 3: it is truncated"},
      {"offsets_at_the_end_of_64_bits", file_of(entry(R"("dtype":"F32","shape":[1],"data_offsets":[18446744073709551611,18446744073709551615])"), "1234"),
       "it is truncated"},
      {"trailing_data", file_of(entry(good), "12345"), "the file has 5 bytes of data; its tensors take 4"},
      {"overlap", file_of("{\"w\":{" + good + R"(},"v":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", "123456"),
       "tensor 'v' begins at byte 2 of the data, which overlaps the tensor up to byte 4"},
      {"same_bytes_twice", file_of("{\"w\":{" + good + "},\"v\":{" + good + "}}", "1234"), "overlaps"},
      {"hole", file_of("{\"w\":{" + good + R"(},"v":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})", "123456789012"),
       "tensor 'v' begins at byte 8 of the data, which leaves a hole from byte 4"},
      {"hole_at_the_start", file_of(entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), "12345678"), "leaves a hole from byte 0"},
  };
}

class SafetensorsHostile : public ::testing::TestWithParam<Hostile> {};

TEST_P(SafetensorsHostile, file_is_refused_with_its_name_and_the_reason) {
  const TemporaryFolder folder;
  write_text(folder / "w", GetParam().content);
  const std::string message = message_of<DataError>([&] { SafetensorsFile(folder / "w"); });
  EXPECT_NE(message.find((folder / "w").string() + ": "), std::string::npos) << message;
  EXPECT_NE(message.find(GetParam().expected), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(, SafetensorsHostile, ::testing::ValuesIn(hostile_files()), [](const auto& tested) { return std::string(tested.param.title); });

TEST(Safetensors, doubles_are_rounded_to_floats) {
  const TemporaryFolder folder;
  const std::vector<double> numbers{0.1, -1e-50, 1.0 + 0x1p-24, 16777217, -3};
  const std::string data(reinterpret_cast<const char*>(numbers.data()), 40);
  write_text(folder / "w", file_of(R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]},"w":{"dtype":"F64","shape":[5],"data_offsets":[3,43]},)"
                                   R"("z":{"dtype":"F64","shape":[0],"data_offsets":[43,43]},"b":{"dtype":"BOOL","shape":[1],"data_offsets":[43,44]}})",
                                   "xyz" + data + "q"));
  const SafetensorsFile file(folder / "w");
  EXPECT_EQ(file.find("w")->spec, f32({5}));
  EXPECT_EQ(numbers_from_bytes(DType::float32, file.find("w")->data), (std::vector<double>{0.1f, -0.0, 1, 16777216, -3}));
  EXPECT_EQ(file.find("z")->spec, f32({0}));
  EXPECT_EQ(file.find("b")->data[0], std::byte{'q'});
}

TEST(Safetensors, every_type_of_the_format_is_listed_where_foreign_ones_are_wanted) {
  const TemporaryFolder folder;
  std::string header, data;
  const std::vector<std::pair<std::string, std::size_t>> types{
      {"BOOL", 8},    {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8},
      {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16}, {"F16", 16}, {"BF16", 16},   {"I32", 32},
      {"U32", 32},    {"F32", 32},        {"C64", 64},        {"F64", 64},    {"I64", 64}, {"U64", 64}};
  for (const auto& [type, bits] : types) {
    header +=
        fmt::format(R"({}"{}":{{"dtype":"{}","shape":[2,4],"data_offsets":[{},{}]}})", header.empty() ? "{" : ",", type, type, data.size(), data.size() + bits);
    data += std::string(bits, 'x');
  }
  write_text(folder / "w", file_of(header + "}", data));
  const SafetensorsHeader read(folder / "w", ForeignTensors::listed);
  std::vector<std::string> own, foreign;
  for (const NamedSpec& t : read.tensors()) own.push_back(t.name);
  for (const ForeignTensor& t : read.foreign()) {
    EXPECT_EQ(t.name, t.type);
    EXPECT_EQ(t.shape, (Shape{2, 4}));
    foreign.push_back(t.name);
  }
  EXPECT_EQ(own, (std::vector<std::string>{"BOOL", "F16", "BF16", "I32", "F32", "F64", "I64"}));
  EXPECT_EQ(own.size() + foreign.size(), types.size());
  EXPECT_EQ(SafetensorsFile(SafetensorsHeader(folder / "w", ForeignTensors::listed)).tensors().size(), own.size());
  EXPECT_NE(message_of<DataError>([&] { SafetensorsHeader{folder / "w"}; }).find("tensor 'F4' has dtype F4; accepted: F32, F16, BF16, F64, I32, I64, BOOL"),
            std::string::npos);
  const auto listed = [&](const std::string& body, const std::string& content) {
    write_text(folder / "w", file_of(entry(body), content));
    return message_of<DataError>([&] { SafetensorsHeader(folder / "w", ForeignTensors::listed); });
  };
  EXPECT_NE(listed(R"("dtype":"F4","shape":[3],"data_offsets":[0,1])", "1").find("tensor 'w' has shape [3], whose elements of 4 bits fill no whole bytes"),
            std::string::npos);
  EXPECT_NE(listed(R"("dtype":"I16","shape":[3],"data_offsets":[0,3])", "123").find("has 3 bytes at data_offsets [0, 3]; I16 [3] needs 6"), std::string::npos);
  EXPECT_NE(listed(R"("dtype":"Q8","shape":[3],"data_offsets":[0,3])", "123").find("has dtype Q8; accepted: F32, F16, BF16, F64, I32, I64, BOOL, U8, I8,"),
            std::string::npos);
}

TEST(Safetensors, what_else_was_given_is_said_by_its_first_bytes) {
  const TemporaryFolder folder;
  const auto said = [&](const char* name, const std::string& content) {
    write_text(folder / name, content);
    const std::string message = message_of<DataError>([&] { SafetensorsHeader{folder / name}; }), begin = "safetensors: " + (folder / name).string() + ": ";
    EXPECT_TRUE(message.starts_with(begin)) << message;
    return message.substr(begin.size());
  };
  EXPECT_EQ(said("a.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:6a\nsize 440449768\n"),
            "it is a pointer of git-lfs to a file of 440449768 bytes; accepted: that file, which `git lfs pull` fetches");
  const std::string zip = std::string("PK\3\4\0\0\x08\x08", 8) + std::string(18, '\0'), path = (folder / "p").string();
  const auto line = [&](const std::string& from, const std::string& to) {
    return "of torch.save; accepted: safetensors, which this line makes of a state dict: python3 -c \"import torch, safetensors.torch as s; d = torch.load('" +
           from + "', map_location='cpu', weights_only=True); s.save_file({k: v.clone().contiguous() for k, v in d.get('state_dict', d).items()}, '" + to +
           "')\"";
  };
  const std::string member("\x16\0\0\0pytorch_model/data.pkl", 26);
  EXPECT_EQ(said("p.bin", zip + member + "..."), "it is PyTorch's, a zip file " + line(path + ".bin", path + ".safetensors"));
  EXPECT_EQ(said("p.safetensors", zip + member), "it is PyTorch's, a zip file " + line(path + ".safetensors", path + ".safetensors.new"))
      << "nothing is overwritten";
  EXPECT_EQ(said("o'p.pt", std::string("\x80\x02\x8a\nl\xfc\x9c"
                                       "F\xf9 j",
                                       11)),
            "it is PyTorch's, a pickle " + line("FILE", "model.safetensors"));
  EXPECT_EQ(said("p.npz", zip + std::string("\x05\0\0\0w.npy", 9)), "it is a zip file of NumPy's arrays; accepted: safetensors");
  EXPECT_EQ(said("p.zip", zip + std::string("\x01\0\0\0w", 5)), "it is a zip file; accepted: safetensors");
  EXPECT_EQ(said("p.zip", "PK\3\4 cut off"), "it is a zip file; accepted: safetensors");
  EXPECT_EQ(said("p.h5", "\x89HDF\r\n\x1a\n."), "it is HDF5, as Keras and h5py write it; accepted: safetensors");
  EXPECT_EQ(said("p.gguf", std::string("GGUF\3\0\0\0.", 9)), "it is GGUF, as llama.cpp reads it; accepted: safetensors");
  EXPECT_EQ(said("p.gz", "\x1f\x8b\x08\x08...."), "it is compressed by gzip; accepted: safetensors");
  EXPECT_EQ(said("p.html", "<!DOCTYPE html>"), "it is a web page, as a download leaves it that was refused; accepted: safetensors");
  EXPECT_EQ(said("p.json", "{\"metadata\": {}}"), "it is JSON; accepted: safetensors");
}

TEST(Safetensors, every_truncation_of_a_file_is_refused) {
  const TemporaryFolder folder;
  const std::vector<std::byte> bytes = counted(8);
  write_safetensors(folder / "w", std::vector<NamedTensor>{{"w", f32({2}), bytes}});
  const std::string whole = read_text(folder / "w");
  for (std::size_t n = 0; n < whole.size(); ++n) {
    write_text(folder / "cut", whole.substr(0, n));
    EXPECT_THROW(SafetensorsFile(folder / "cut"), DataError) << n;
  }
}

TEST(Safetensors, what_cannot_be_written_is_a_usage_error) {
  const TemporaryFolder folder;
  const std::vector<std::byte> bytes = counted(4);
  const auto write = [&](const std::vector<NamedTensor>& tensors) { return message_of<UsageError>([&] { write_safetensors(folder / "w", tensors); }); };
  EXPECT_EQ(write({{"w", f32({1}), bytes}, {"w", f32({1}), bytes}}), "write_safetensors: the name 'w' is given twice");
  EXPECT_EQ(write({{"__metadata__", f32({1}), bytes}}), "write_safetensors: the name '__metadata__' is reserved");
  EXPECT_EQ(write({{"w", f32({2}), bytes}}), "write_safetensors: tensor 'w' has 4 bytes; float32 [2] needs 8");
  EXPECT_EQ(write({{"\xff", f32({1}), bytes}}), "write_safetensors: a name or the metadata is not valid UTF-8");
  EXPECT_FALSE(std::filesystem::exists(folder / "w"));
}

}  // namespace
}  // namespace gemel
