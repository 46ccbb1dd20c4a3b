// Open MPI's own words, which are taken out of what ranks say on standard error.
#include "frontends/cli/launch/mpirun_stderr.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace gemel::cli {
namespace {

const std::string kDashes(74, '-');
const std::string kPage = kDashes + "\nprterun noticed that process rank 1 with PID 28611 on node vm exited on\nsignal 9 (Killed).\n" + kDashes + "\n";

/// What is passed on of a text that comes in parts of so many bytes.
std::string passed_in_parts(std::string_view text, std::size_t part, std::vector<std::string>* found = nullptr) {
  WordsOfOpenMpi words;
  std::string out;
  for (; !text.empty(); text.remove_prefix(std::min(part, text.size()))) out += words.pass(text.substr(0, part));
  if (found) *found = words.found();
  return out + words.end();
}

TEST(MpirunWords, are_taken_out_however_the_bytes_come) {
  const std::string text =
      "epoch 1\n" + kPage + std::string(1, '\0') + "gemel: rank 1 was lost\n[vm:02079] *** An error occurred in MPI_Init_thread\n" +
      "[vm][[12802,1],0][../opal/btl_tcp_proc.c:266:create_interface_graph] Unable to find reachable pairing\n*** on a NULL communicator\n" +
      "mpirun: Forwarding signal 12 to job\n" + kPage + "12 more processes have sent help message help-mpi-runtime.txt / mpi_init (job prterun-vm-12957@1)\n" +
      "saved - 3 files\n";
  for (std::size_t part = 1; part <= text.size(); ++part) {
    std::vector<std::string> found;
    ASSERT_EQ(passed_in_parts(text, part, &found), "epoch 1\ngemel: rank 1 was lost\nsaved - 3 files\n") << part;
    ASSERT_EQ(found.size(), 7u) << part;
    EXPECT_EQ(found[0], "prterun noticed that process rank 1 with PID 28611 on node vm exited on\nsignal 9 (Killed).\n");
    EXPECT_EQ(found[4], "mpirun: Forwarding signal 12 to job");
  }
}

TEST(MpirunWords, begin_behind_a_line_of_a_rank_that_has_no_end) {
  for (const std::size_t part : {1, 7, 1000}) EXPECT_EQ(passed_in_parts("step 7" + kPage + "step 8\n", part), "step 7\nstep 8\n") << part;
}

TEST(MpirunWords, are_not_what_a_rank_says) {
  for (const std::string text : {"[vm] a line\n", "[1, 2] 3\n", "[:12] x\n", "[vm:] x\n", "[a b:12] x\n", "[vm:1x] y\n", "[vm:12]x\n", "---\n- a\n",
                                 "12 more\n", "3\n", "12 more processes\n", "more process\n", "***\n", "a *** b\n", "mpi\n", "a: mpirun: b\n", "\n\n"})
    for (const std::size_t part : {1, 2, 1000}) EXPECT_EQ(passed_in_parts(text, part), text) << part;
  EXPECT_EQ(passed_in_parts(std::string(59, '-') + "\n", 10), std::string(59, '-') + "\n");
}

TEST(MpirunWords, hold_back_nothing_of_a_line_that_is_a_ranks) {
  WordsOfOpenMpi words;
  EXPECT_EQ(words.pass("\repoch 1: 30 %"), "\repoch 1: 30 %");
  EXPECT_EQ(words.pass("\repoch 1: 40 % -"), "\repoch 1: 40 % ");
  EXPECT_EQ(words.pass("1\n"), "-1\n");
  EXPECT_EQ(words.pass("12 %"), "12 %");
  EXPECT_EQ(words.pass("\n*"), "\n");
  EXPECT_EQ(words.pass("a"), "*a");
  EXPECT_EQ(words.pass("\n[vm:12] half"), "\n");
  EXPECT_EQ(words.end(), "[vm:12] half");
}

TEST(MpirunWords, that_come_to_no_end_are_passed_on) {
  EXPECT_EQ(passed_in_parts(kDashes + "\nIt looks like\nMPI", 5), kDashes + "\nIt looks like\nMPI");
  EXPECT_EQ(passed_in_parts("a\n" + kDashes, 9), "a\n" + kDashes);
}

}  // namespace
}  // namespace gemel::cli
