// WAV files: every encoding, chunks in any order, and damaged ones.
#include "datasets/formats/wav.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <stop_token>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/philox.h"
#include "tests/support/formats/wav_bytes.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel::datasets {
namespace {

using testing::chunk;
using testing::Encoding;
using testing::format;
using testing::low;
using testing::message_of;
using testing::riff;
using testing::whole;
using List = std::vector<float>;

std::string extensible(const Encoding& e) {
  const std::string rest("\0\0\0\0\x10\0\x80\0\0\xAA\0\x38\x9B\x71", 14);
  const int block = e.channels * e.bits / 8;
  return chunk("fmt ", low(0xFFFE, 2) + low(e.channels, 2) + low(e.rate, 4) + low(e.rate * block, 4) + low(block, 2) + low(e.bits, 2) + low(22, 2) +
                           low(e.bits, 2) + low(0, 4) + low(e.tag, 2) + rest);
}
std::string real(const List& numbers) { return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)}; }

Sound parsed(const std::string& file) { return parse_wav(std::as_bytes(std::span(file)), "a.wav"); }
std::string refusal(const std::string& file) {
  return message_of<DataError>([&] { parsed(file); });
}

TEST(Wav, whole_numbers_of_every_width_become_minus_1_to_1) {
  EXPECT_EQ(parsed(riff(format({.bits = 8}) + chunk("data", whole({0, 64, 128, 255}, 1)))).samples, (List{-1, -0.5f, 0, 127 / 128.0f}));
  EXPECT_EQ(parsed(riff(format({}) + chunk("data", whole({-32768, -1, 0, 32767}, 2)))).samples, (List{-1, -0x1p-15f, 0, 32767 / 32768.0f}));
  EXPECT_EQ(parsed(riff(format({.bits = 24}) + chunk("data", whole({-8388608, -1, 0, 8388607}, 3)))).samples, (List{-1, -0x1p-23f, 0, 8388607 / 8388608.0f}));
  EXPECT_EQ(parsed(riff(format({.bits = 32}) + chunk("data", whole({-2147483648, -128, 0, 1073741824}, 4)))).samples, (List{-1, -0x1p-24f, 0, 0.5f}));
}

TEST(Wav, floating_numbers_are_taken_as_they_are) {
  const List numbers{0.25f, -1.5f, 1e-20f, -0.0f};
  EXPECT_EQ(parsed(riff(format({.tag = 3, .bits = 32}) + chunk("data", real(numbers)))).samples, numbers);
  EXPECT_EQ(refusal(riff(format({.tag = 3, .bits = 32}) + chunk("data", real({0, std::numeric_limits<float>::infinity()})))),
            "wav: a.wav: sample 1 (from 0) is inf; accepted: finite numbers");
}

TEST(Wav, floating_numbers_of_64_bits_are_rounded) {
  const std::vector<double> numbers{0.1, -1e-50, 1 + 0x1p-30, -0.75};
  const std::string data(reinterpret_cast<const char*>(numbers.data()), 32);
  EXPECT_EQ(parsed(riff(format({.tag = 3, .bits = 64}) + chunk("data", data))).samples, (List{0.1f, -0.0f, 1, -0.75f}));
  EXPECT_EQ(parsed(riff(extensible({.tag = 3, .channels = 2, .bits = 64}) + chunk("data", data))).samples, (List{0.05f, 0.125f}));
  const std::vector<double> large{1e300};
  EXPECT_EQ(refusal(riff(format({.tag = 3, .bits = 64}) + chunk("data", std::string(reinterpret_cast<const char*>(large.data()), 8)))),
            "wav: a.wav: sample 0 (from 0) is inf; accepted: finite numbers");
}

TEST(Wav, channels_are_mixed_to_their_mean) {
  EXPECT_EQ(parsed(riff(format({.channels = 2}) + chunk("data", whole({16384, 0, -32768, 32767}, 2)))).samples, (List{0.25f, -0x1p-16f}));
  EXPECT_EQ(parsed(riff(format({.tag = 3, .channels = 3, .bits = 32}) + chunk("data", real({3, 0, 1.5f})))).samples, (List{1.5f}));
}

TEST(Wav, the_extensible_format_is_that_which_it_names) {
  EXPECT_EQ(parsed(riff(extensible({.bits = 24}) + chunk("data", whole({4194304}, 3)))).samples, (List{0.5f}));
  EXPECT_EQ(parsed(riff(extensible({.tag = 3, .bits = 32}) + chunk("data", real({0.5f})))).samples, (List{0.5f}));
}

TEST(Wav, chunks_may_come_in_any_order_and_others_are_skipped) {
  const std::string data = chunk("data", whole({1, 2, 3}, 1)), other = chunk("LIST", "odd") + chunk("bext", std::string(600, 'x')) + chunk("junk", "");
  for (const std::string& chunks : {format({.bits = 8}) + data, other + format({.bits = 8}) + other + data + other, data + other + format({.bits = 8})}) {
    const Sound sound = parsed(riff(chunks));
    EXPECT_EQ(sound.samples, (List{-127 / 128.0f, -126 / 128.0f, -125 / 128.0f}));
    EXPECT_EQ(sound.sample_rate, 16000);
  }
  EXPECT_TRUE(parsed(riff(format({}) + chunk("data", ""))).samples.empty());
}

TEST(Wav, what_follows_is_no_part_and_the_last_byte_of_padding_may_be_missing) {
  const std::string odd = format({.bits = 8}) + chunk("data", whole({1, 2, 3}, 1));
  EXPECT_EQ(parsed(riff(odd) + "ID3 tags").samples.size(), 3u);
  EXPECT_EQ(parsed(riff(odd.substr(0, odd.size() - 1))).samples.size(), 3u);
}

/// A file whose sizes say what its writer thought of them. @param sound  of 16 bits, one channel
std::string sized(std::int64_t whole_size, std::int64_t data_size, const std::string& sound, const std::string& before = "", const std::string& kind = "RIFF") {
  return kind + low(whole_size, 4) + "WAVE" + before + format({}) + "data" + low(data_size, 4) + sound;
}

TEST(Wav, sound_of_unknown_size_goes_on_to_the_end_of_the_file) {
  const testing::TemporaryFolder folder;
  const std::string sound = whole({16384, -16384, 8192}, 2), list = chunk("LIST", std::string(26, 'x'));
  const List expected{0.5f, -0.5f, 0.25f};
  const std::pair<std::int64_t, std::int64_t> sizes[] = {{0xFFFFFFFF, 0xFFFFFFFF},  // ffmpeg
                                                         {0x7FFFF024, 0x7FFFF000},  // sox
                                                         {0x80000024, 0x80000000},  // arecord
                                                         {0x7FFFFFFF, 0x7FFFFFFF - 36},
                                                         {0, 0},
                                                         {36, 0},  // a writer that was to come back when it knew
                                                         {0, 6},
                                                         {0xFFFFFFFF, 6},
                                                         {42, 0xFFFFFFFF}};
  for (const auto& [whole_size, data_size] : sizes) {
    for (const std::string& before : {std::string(), list}) {
      const std::int64_t shift = whole_size > 0 && whole_size < 100 ? std::ssize(before) : 0;
      const std::string file = sized(whole_size + shift, data_size, sound, before);
      EXPECT_EQ(parsed(file).samples, expected) << std::hex << whole_size << " " << data_size;
      testing::write_text(folder / "a.wav", file);
      EXPECT_EQ(count_samples(folder / "a.wav"), 3) << std::hex << whole_size << " " << data_size;
      // A pipe that is closed within a sample: known sizes tell that it is missing.
      if (data_size == 6) continue;
      EXPECT_EQ(parsed(file.substr(0, file.size() - 1)).samples, (List{0.5f, -0.5f})) << std::hex << whole_size << " " << data_size;
    }
  }
  // sox counts whole samples of all channels: fewer bytes than that where they do not divide it.
  for (const int bytes : {3, 6, 12, 24})
    EXPECT_EQ(parsed(sized(0x7FFFF024, 0x7FFFF000 / bytes * bytes, sound)).samples, expected) << bytes << " bytes a sample of all channels";
  EXPECT_TRUE(parsed(sized(0xFFFFFFFF, 0xFFFFFFFF, "")).samples.empty());
  EXPECT_TRUE(parsed(riff(format({}) + chunk("data", "") + chunk("LIST", "four"))).samples.empty()) << "what says that it is empty, is";
  EXPECT_EQ(refusal(sized(0x12345678, 0x12345654, sound)), "wav: a.wav: the file is truncated: it has 50 bytes; expected: 305419904")
      << "a size like any other";
  EXPECT_EQ(refusal("RIFF" + low(-1, 4) + "WAVE" + "data" + low(-1, 4) + sound),
            "wav: a.wav: its chunk 'data' at byte 12 has 4294967295 bytes; accepted: the 6 that are left");
}

TEST(Wav, sizes_of_64_bits_stand_in_a_chunk_of_their_own) {
  const std::string sound = whole({16384, -16384, 8192}, 2);
  const auto file = [&](std::int64_t data_size, const std::string& kind) {
    return sized(0xFFFFFFFF, 0xFFFFFFFF, sound + "id3 " + low(2, 4) + "ab", chunk("ds64", low(100, 8) + low(data_size, 8) + low(3, 8) + low(0, 4)), kind);
  };
  for (const char* kind : {"RF64", "BW64"}) EXPECT_EQ(parsed(file(6, kind)).samples, (List{0.5f, -0.5f, 0.25f}));
  EXPECT_EQ(parsed(file(-1, "RF64")).samples.size(), 8u) << "an unknown one goes on to the end";
  EXPECT_EQ(refusal(file(1000, "RF64")), "wav: a.wav: its chunk 'data' at byte 72 has 1000 bytes; accepted: the 16 that are left");
}

TEST(Wav, a_size_of_the_whole_that_is_some_bytes_wrong_and_broken_chunks_behind_the_sound_do_no_harm) {
  const std::string chunks = format({}) + chunk("data", whole({16384, 8192}, 2));
  const auto file = [&](std::int64_t off, const std::string& behind) {
    return "RIFF" + low(4 + std::ssize(chunks + behind) + off, 4) + "WAVE" + chunks + behind;
  };
  const List expected{0.5f, 0.25f};
  EXPECT_EQ(parsed(file(8, "")).samples, expected) << "the file's size in place of what follows it";
  EXPECT_EQ(parsed(file(16, "")).samples, expected);
  EXPECT_EQ(parsed(file(0, "abc")).samples, expected) << "too few bytes for a chunk";
  EXPECT_EQ(parsed(file(0, "LIST" + low(1000, 4) + "cut off")).samples, expected);
  EXPECT_EQ(parsed(file(0, std::string(16, '\0'))).samples, expected) << "zeros that fill a block";
  EXPECT_NE(refusal(file(-4, "")).find("its chunk 'data' at byte 36 has 4 bytes; accepted: the 0 that are left"), std::string::npos);
}

TEST(Wav, files_are_read_and_their_rate_is_checked) {
  const testing::TemporaryFolder folder;
  testing::write_text(folder / "a.wav", riff(format({.rate = 8000}) + chunk("data", whole({16384}, 2))));
  const std::string path = (folder / "a.wav").string();
  EXPECT_EQ(read_wav(folder / "a.wav", 8000).samples, (List{0.5f}));
  EXPECT_EQ(message_of<DataError>([&] { read_wav(folder / "a.wav", 16000); }), "wav: " + path + ": it has 8000 samples a second; expected: 16000");
  EXPECT_NE(message_of<DataError>([&] { read_wav(folder / "b.wav"); }).find((folder / "b.wav").string()), std::string::npos);
}

TEST(Wav, samples_are_counted_by_what_stands_before_them) {
  const testing::TemporaryFolder folder;
  testing::write_text(folder / "a.wav", riff(format({.channels = 2, .bits = 24, .rate = 8000}) + chunk("data", std::string(66, 'x'))));
  EXPECT_EQ(count_samples(folder / "a.wav"), 11);
  EXPECT_EQ(message_of<DataError>([&] { count_samples(folder / "a.wav", 16000); }),
            "wav: " + (folder / "a.wav").string() + ": it has 8000 samples a second; expected: 16000");
  testing::write_text(folder / "a.wav", riff(format({}) + chunk("data", "odd")));
  EXPECT_EQ(message_of<DataError>([&] { count_samples(folder / "a.wav"); }),
            "wav: " + (folder / "a.wav").string() + ": it has 3 bytes of sound; accepted: a multiple of 2, of 1 channels of 16 bits");
}

TEST(Wav, one_that_is_written_anew_while_its_samples_are_counted_is_an_error_or_whole_and_no_signal) {
  const testing::TemporaryFolder folder;
  // What is counted stands behind pages that the file lacks for a moment.
  const std::string text = riff(chunk("junk", std::string(200'000, 'x')) + format({}) + chunk("data", whole({1, 2}, 2)));
  testing::write_text(folder / "a.wav", text);
  const std::jthread writer([&](const std::stop_token& end) {
    while (!end.stop_requested()) testing::write_text(folder / "a.wav", text);
  });
  for (int i = 0; i < 20'000; ++i) {
    try {
      EXPECT_EQ(count_samples(folder / "a.wav"), 2);
    } catch (const DataError& e) {
      EXPECT_NE(std::string_view(e.what()).find((folder / "a.wav").string()), std::string_view::npos) << e.what();
    }
  }
}

TEST(Wav, says_what_is_no_wav_file) {
  EXPECT_EQ(refusal(""), "wav: a.wav: no WAV file of 0 bytes: it is too short; expected: RIFF, a size and WAVE");
  EXPECT_EQ(refusal(std::string("fLaC\0\0\0\x22\x10\0\x10\0", 12)),
            "wav: a.wav: no WAV file of 12 bytes: it starts with fLaC and \\x10\\x00\\x10\\x00; expected: RIFF, a size and WAVE");
  EXPECT_EQ(refusal("RIFX" + low(4, 4) + "WAVE"), "wav: a.wav: no WAV file of 12 bytes: it starts with RIFX and WAVE; expected: RIFF, a size and WAVE");
  EXPECT_EQ(refusal("RIFF" + low(4, 4) + "AVI "), "wav: a.wav: no WAV file of 12 bytes: it starts with RIFF and AVI ; expected: RIFF, a size and WAVE");
}

TEST(Wav, says_where_a_file_is_broken) {
  const std::string good = riff(format({}) + chunk("data", whole({1, 2}, 2)));
  EXPECT_EQ(refusal(good.substr(0, good.size() - 1)), "wav: a.wav: the file is truncated: it has 47 bytes; expected: 48");
  EXPECT_EQ(refusal(riff("")), "wav: a.wav: it has no chunk 'fmt '; expected: one of 'fmt ' and one of 'data'");
  EXPECT_EQ(refusal(riff(format({}))), "wav: a.wav: it has no chunk 'data'; expected: one of 'fmt ' and one of 'data'");
  EXPECT_EQ(refusal(riff(format({}) + format({}))), "wav: a.wav: its chunk 'fmt ' stands twice");
  EXPECT_EQ(refusal(riff(format({}) + "data" + low(5, 4) + "four")), "wav: a.wav: its chunk 'data' at byte 36 has 5 bytes; accepted: the 4 that are left");
  EXPECT_EQ(refusal(riff(format({}) + "dat")), "wav: a.wav: 3 bytes follow its last chunk; expected: none, or a chunk");
  EXPECT_EQ(refusal(riff(chunk("fmt ", "short") + chunk("data", ""))), "wav: a.wav: its chunk 'fmt ' has 5 bytes; expected: 16 or more");
  EXPECT_EQ(refusal(riff(format({.tag = 0xFFFE}) + chunk("data", ""))),
            "wav: a.wav: its chunk 'fmt ' has 16 bytes; expected: 40 or more for an extensible format");
  EXPECT_EQ(refusal(riff(format({.channels = 2}) + chunk("data", whole({1, 2, 3}, 2)))),
            "wav: a.wav: it has 6 bytes of sound; accepted: a multiple of 4, of 2 channels of 16 bits");
}

TEST(Wav, says_which_format_it_does_not_read) {
  const std::string accepted = "; accepted: 1 (PCM) with 8, 16, 24 or 32, and 3 (floating point) with 32 or 64", data = chunk("data", "");
  EXPECT_EQ(refusal(riff(format({.tag = 6, .bits = 8}) + data)), "wav: a.wav: its format is 6 with 8 bits a sample" + accepted);
  EXPECT_EQ(refusal(riff(format({.bits = 12}) + data)), "wav: a.wav: its format is 1 with 12 bits a sample" + accepted);
  EXPECT_EQ(refusal(riff(format({.tag = 3, .bits = 16}) + data)), "wav: a.wav: its format is 3 with 16 bits a sample" + accepted);
  EXPECT_EQ(refusal(riff(format({.channels = 0}) + data)), "wav: a.wav: it has 0 channels and 16000 samples a second; accepted: 1 or more of each");
  EXPECT_EQ(refusal(riff(format({.rate = 0}) + data)), "wav: a.wav: it has 1 channels and 0 samples a second; accepted: 1 or more of each");
  EXPECT_EQ(refusal(riff(format({.channels = 2, .block = 3}) + data)), "wav: a.wav: 3 bytes hold a sample of its 2 channels of 16 bits; expected: 4");
}

TEST(Wav, damaged_files_end_with_an_error_or_finite_sound) {
  PhiloxStream draws(9, 0);
  std::vector<std::string> files;
  for (const int bits : {8, 16, 24, 32})
    files.push_back(riff(format({.channels = 2, .bits = bits}) + chunk("LIST", "odd") + chunk("data", std::string(static_cast<std::size_t>(bits), 'x'))));
  files.push_back(riff(chunk("data", real({0.5f, 1, -1})) + extensible({.tag = 3, .bits = 32})));
  int refused = 0, read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string file = files[draws.below(static_cast<std::uint32_t>(files.size()))];
    for (std::uint32_t k = 1 + draws.below(3); k > 0 && !file.empty(); --k) {
      const std::size_t place = draws.below(static_cast<std::uint32_t>(file.size()));
      const auto byte = static_cast<char>(draws.below(256));
      switch (draws.below(4)) {
        case 0:
          file[place] = byte;
          break;
        case 1:
          file.erase(place, draws.below(8));
          break;
        case 2:
          file.insert(place, draws.below(8), byte);
          break;
        default:
          file.resize(place + 1);
          break;
      }
    }
    try {
      for (const float x : parsed(file).samples) EXPECT_TRUE(std::isfinite(x));
      ++read;
    } catch (const DataError& e) {
      EXPECT_TRUE(std::string_view(e.what()).starts_with("wav: a.wav: ")) << e.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 5000);
  EXPECT_GT(read, 500);
}

}  // namespace
}  // namespace gemel::datasets
