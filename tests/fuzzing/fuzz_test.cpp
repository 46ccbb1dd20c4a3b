// Damaged input of every reader: read or refused. For hours: tests/fuzzing/libfuzzer_main.cpp.
#include <gtest/gtest.h>

#include <chrono>

#include "engine/base/error.h"
#include "engine/base/hash.h"
#include "tests/support/device/test_device.h"
#include "tests/support/faults/fuzz_mutator.h"
#include "tests/support/faults/fuzz_targets.h"

namespace gemel::testing {
namespace {

class Fuzzed : public ::testing::TestWithParam<std::string_view> {
 protected:
  const FuzzTarget target_ = fuzz_target(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Each, Fuzzed, ::testing::ValuesIn(fuzz_target_names()), [](const auto& i) { return std::string(i.param); });

TEST_P(Fuzzed, corpus_is_read) {
  for (const std::string& text : target_.corpus) {
    if (GetParam() == "cifar10") {
      EXPECT_THROW(target_.read(text), DataError) << "a whole one has 170 MB";
    } else
      EXPECT_NO_THROW(target_.read(text));
  }
}

// A quarter of a second for each reader; with --full three, so a minute in all, and a thousand texts at least.
TEST_P(Fuzzed, damage_is_read_or_refused) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(is_full_run() ? 3000 : 250);
  const int least = is_full_run() ? 1000 : 1;
  int tried = 0, refused = 0;
  for (Mutator mutator(target_.corpus, hash_of(GetParam())); tried < least || std::chrono::steady_clock::now() < end;) {
    const std::string text = mutator.next();
    ++tried;
    try {
      target_.read(text);
    } catch (const InternalError& error) {
      FAIL() << error.what() << "\nof " << ::testing::PrintToString(text);
    } catch (const Error&) {
      ++refused;
    } catch (const std::exception& error) {
      FAIL() << typeid(error).name() << ": " << error.what() << "\nof " << ::testing::PrintToString(text);
    }
  }
  EXPECT_GT(refused, 0);
  RecordProperty("tried", tried);
  RecordProperty("refused", refused);
}

}  // namespace
}  // namespace gemel::testing
