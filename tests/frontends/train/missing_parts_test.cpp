// Parts of batches that a checkpoint lacks: they are found again by a run that divides batches as before, and refused by any other.
#include "frontends/train/checkpoint/missing_parts.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/message_of.h"

namespace gemel::train {
namespace {

using testing::message_of;

RanksState saved(const std::vector<std::int64_t>& missing, std::int64_t parts) {
  RanksState out;
  put_missing_parts(out, missing, parts);
  return out;
}

TEST(MissingParts, are_found_again_by_a_run_with_as_many_parts) {
  EXPECT_EQ(missing_parts_in(saved({3, 7}, 2), 2), (std::vector<std::int64_t>{3, 7}));
  EXPECT_TRUE(missing_parts_in(RanksState(), 2).empty());
}

TEST(MissingParts, where_there_are_none_any_run_goes_on) {
  EXPECT_TRUE(saved({}, 2).texts.empty());
  for (const std::int64_t parts : {0, 1, 3}) EXPECT_TRUE(missing_parts_in(saved({}, 2), parts).empty());
}

TEST(MissingParts, are_refused_by_a_run_that_divides_batches_otherwise) {
  const std::string begin = "resume: the checkpoint is of the middle of an epoch of which parts of batches are missing, 2 to a batch, and this run has ";
  const std::string accepted = "; accepted: --parallel ps with as many parts, or a checkpoint of the end of an epoch";
  EXPECT_EQ(message_of<UsageError>([] { missing_parts_in(saved({3}, 2), 3); }), begin + "3 to a batch" + accepted);
  EXPECT_EQ(message_of<UsageError>([] { missing_parts_in(saved({3}, 2), 0); }), begin + "whole batches" + accepted) << "by ddp, or one process";
  RanksState damaged = saved({3}, 2);
  damaged.texts.erase("parts_of_batch");
  EXPECT_THROW(missing_parts_in(damaged, 2), UsageError);
}

TEST(MissingParts, of_text_that_is_no_numbers_are_refused) {
  RanksState state = saved({3}, 2);
  state.texts.at("missing_parts") = "3 x";
  EXPECT_EQ(message_of<DataError>([&] { missing_parts_in(state, 2); }), "checkpoint: '3 x' for 'missing_parts'; accepted: numbers with spaces between");
}

}  // namespace
}  // namespace gemel::train
