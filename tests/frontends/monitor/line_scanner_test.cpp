// Lines of a record: numbers at the top are read, all else is passed over, and what is no object is refused.
#include "frontends/monitor/line_scanner.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace gemel::monitor {
namespace {

TEST(LineScanner, numbers_at_the_top_are_read_as_the_parser_reads_them) {
  const std::string text =
      R"({"event":"step", "step":12,"loss":-2.5e-3,"big":123456789012345678,"name":"a\"b,{","none":null,"on":true,"in":{"x":[1,{"y":"}"}]},"last":0.1})";
  Line line;
  ASSERT_TRUE(scan(text, line));
  EXPECT_EQ(line.event, "step");
  const auto json = nlohmann::json::parse(text);
  std::size_t numbers = 0;
  for (const auto& [name, value] : json.items())
    if (value.is_number()) {
      EXPECT_EQ(line.number(name, -1), value.get<double>()) << name;
      ++numbers;
    }
  EXPECT_EQ(line.numbers.size(), numbers);
  EXPECT_EQ(line.number("x", 7), 7);
}

TEST(LineScanner, a_number_beyond_a_double_counts_as_none) {
  Line line;
  ASSERT_TRUE(scan(R"({"event":"step","step":1,"loss":1e999})", line));
  EXPECT_EQ(line.number("loss", 5), 5);
}

TEST(LineScanner, what_is_no_whole_object_is_refused) {
  const std::string whole = R"({"event":"step","step":1,"in":[{"a":"\\"}],"loss":0.5})";
  Line line;
  ASSERT_TRUE(scan(whole, line));
  for (std::size_t length = 0; length < whole.size(); ++length) EXPECT_FALSE(scan(whole.substr(0, length), line)) << whole.substr(0, length);
  for (const char* text : {"[]", "1", "{\"a\":1}x", "{\"a\":1,}", "{\"a\" 1}", "{a:1}", "{\"a\":nul}", "{\"a\":-}", "{\"a\":\"\\"})
    EXPECT_FALSE(scan(text, line)) << text;
}

TEST(LineScanner, a_million_open_brackets_are_passed_over_without_recursion) {
  const std::string deep = "{\"a\":" + std::string(1000000, '[');
  Line line;
  EXPECT_FALSE(scan(deep, line));
  EXPECT_TRUE(scan(deep + std::string(1000000, ']') + "}", line));
}

}  // namespace
}  // namespace gemel::monitor
