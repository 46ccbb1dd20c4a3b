// Ratings: their files whole and damaged, what is held out, and what is drawn beside interactions.
#include "datasets/ratings/ratings_dataset.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "datasets/loading/data_loader.h"
#include "datasets/ratings/synthetic_ratings.h"
#include "engine/base/error.h"
#include "engine/base/philox.h"
#include "tests/support/datasets/host_elements.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel::datasets {
namespace {

using testing::elements;
using testing::message_of;
using Ids = std::vector<std::int64_t>;

/// Of a batch.
struct Rows {
  Ids users, items;
  std::vector<float> labels;
  friend bool operator==(const Rows&, const Rows&) = default;
};
Rows rows(const std::vector<HostTensor>& tensors) {
  EXPECT_EQ(tensors.size(), 3u);
  return {elements<std::int64_t>(tensors[0]), elements<std::int64_t>(tensors[1]), elements<float>(tensors[2])};
}
Rows rows(const Dataset& data, const Ids& samples, const std::optional<Draws>& draws = {}) { return rows(data.tensors(samples, draws)); }

class RatingsFile {
 public:
  RatingSplits open(std::string_view text, const RatingsOptions& options = {}) const {
    testing::write_text(path(), text);
    return open_ratings(folder_.path(), options);
  }
  std::filesystem::path path() const { return folder_ / "ratings.tsv"; }
  std::filesystem::path folder() const { return folder_.path(); }

 private:
  testing::TemporaryFolder folder_;
};

/// What is learnt from, as (user, item), in order.
std::vector<std::pair<std::int64_t, std::int64_t>> learnt(const RatingSplits& splits, std::int64_t negatives = 4) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  for (std::int64_t i = 0; i < splits.train->size(); i += 1 + negatives) {
    const Rows row = rows(*splits.train, {i});
    EXPECT_EQ(row.labels, std::vector<float>{1});
    out.emplace_back(row.users[0], row.items[0]);
  }
  return out;
}

/// User to the item that is held out.
std::map<std::int64_t, std::int64_t> held_out(const RatingSplits& splits) {
  std::map<std::int64_t, std::int64_t> out;
  for (std::int64_t i = 0; splits.validation && i < splits.validation->size(); ++i) {
    const Rows row = rows(*splits.validation, {i});
    EXPECT_TRUE(out.emplace(row.users[0], row.items[0]).second);
  }
  return out;
}

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
using Last = std::map<std::int64_t, std::int64_t>;

TEST(RatingsData, is_numbered_in_the_order_of_first_appearance) {
  const RatingsFile file;
  const RatingSplits splits = file.open("bob\tx\nann\ty\r\nbob\ty\nann\tz z\nbob\tx y\n17\tx\n");
  EXPECT_EQ(splits.users, 3);
  EXPECT_EQ(splits.items, 4);
  EXPECT_EQ(learnt(splits), (Pairs{{0, 0}, {1, 1}, {0, 1}, {2, 0}}));
  EXPECT_EQ(held_out(splits), (Last{{0, 3}, {1, 2}})) << "the last line of a user, where it has two";
  EXPECT_EQ(splits.train->size(), 20);
  EXPECT_EQ(splits.train->tensors(Ids{0, 3, 7})[0].spec, i64({3, 1}));
  EXPECT_EQ(splits.train->tensors(Ids{0, 3, 7})[2].spec, f32({3, 1}));
  EXPECT_EQ(splits.validation->tensors(Ids{1, 0})[1].spec, i64({2, 100}));
  EXPECT_EQ(splits.validation->tensors(Ids{1, 0})[2].spec, f32({2, 100}));
}

TEST(RatingsData, holds_out_each_users_last_by_time_then_by_line) {
  const RatingsFile file;
  EXPECT_EQ(held_out(file.open("a\t1\t5\t30\na\t2\t1\t10\nb\t2\t3\t-7.5\nb\t3\t3\t-8\nc\t4\t2\t1\nc\t1\t4\t1\n")), (Last{{0, 0}, {1, 1}, {2, 0}}));
  EXPECT_EQ(held_out(file.open("a\t1\t5\na\t2\t1\nb\t2\t3\nb\t3\t3\n")), (Last{{0, 1}, {1, 2}})) << "ratings are no times";
}

TEST(RatingsData, counts_a_pair_that_comes_again_once_as_the_later) {
  const RatingsFile file;
  const RatingSplits splits = file.open("a\t1\t5\t10\na\t2\t5\t20\na\t1\t5\t30\nb\t3\t5\t1\nb\t3\t5\t2\n");
  EXPECT_EQ(held_out(splits), (Last{{0, 0}}));
  EXPECT_EQ(learnt(splits), (Pairs{{0, 1}, {1, 2}})) << "nothing that is held out is learnt; one item is not held out";
  EXPECT_EQ(file.open("a\t1\nb\t2\n").validation, nullptr);
}

/// 30 users of 60 items, of which each meets 8.
Interactions many() {
  Interactions out{30, 60, {}};
  PhiloxStream draws(3, stream_hash("many"));
  for (std::int32_t user = 0; user < 30; ++user) {
    std::set<std::int32_t> met;
    while (met.size() < 8) {
      const auto item = static_cast<std::int32_t>(draws.below(60));
      if (met.insert(item).second) out.lines.push_back({user, item, static_cast<double>(draws.below(1000))});
    }
  }
  return out;
}

TEST(RatingsData, of_training_are_interactions_and_items_that_the_user_did_not_meet_in_training) {
  const RatingSplits splits = split_ratings(many(), {.negatives = 3});
  std::map<std::int64_t, std::set<std::int64_t>> met;
  for (const auto& [user, item] : learnt(splits, 3)) met[user].insert(item);
  EXPECT_EQ(splits.train->size(), 30 * 7 * 4);
  Ids all(static_cast<std::size_t>(splits.train->size()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  std::map<std::int64_t, int> drawn;  // by user 0
  constexpr int kEpochs = 200;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Rows row = rows(*splits.train, all, Draws{1, epoch});
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(row.labels[i], i % 4 == 0 ? 1 : 0);
      ASSERT_EQ(row.users[i], row.users[i - i % 4]);
      ASSERT_GE(row.items[i], 0);
      ASSERT_LT(row.items[i], 60);
      ASSERT_EQ(met[row.users[i]].contains(row.items[i]), i % 4 == 0);
      if (row.users[i] == 0 && i % 4 != 0) ++drawn[row.items[i]];
    }
  }
  // 200 epochs of 21 draws from 53 items: 79 of each, with deviation 9; five of them.
  EXPECT_EQ(drawn.size(), 53u) << "the item that is held out among them: " << held_out(splits).at(0);
  for (const auto& [item, count] : drawn) EXPECT_NEAR(count, kEpochs * 21.0 / 53, 45) << item;
}

TEST(RatingsData, of_validation_are_the_item_held_out_and_99_others_that_the_user_never_met) {
  Interactions given = many();
  given.items = 500;
  const RatingSplits splits = split_ratings(given, {});
  std::map<std::int64_t, std::set<std::int64_t>> met;
  for (const Interaction& i : given.lines) met[i.user].insert(i.item);
  ASSERT_EQ(splits.validation->size(), 30);
  for (std::int64_t user = 0; user < 30; ++user) {
    const Rows row = rows(*splits.validation, {user});
    EXPECT_EQ(row.users, Ids(100, user));
    EXPECT_EQ(std::set(row.items.begin(), row.items.end()).size(), 100u);
    for (std::size_t k = 0; k < 100; ++k) {
      EXPECT_EQ(row.labels[k], k == 0 ? 1 : 0);
      EXPECT_EQ(met[user].contains(row.items[k]), k == 0);
      EXPECT_LT(row.items[k], 500);
    }
  }
  EXPECT_EQ(rows(*splits.validation, {5}), rows(*split_ratings(given, {}).validation, {5}, Draws{9, 9})) << "fixed by the seed alone";
  EXPECT_NE(rows(*splits.validation, {5}), rows(*split_ratings(given, {.seed = 2}).validation, {5}));
}

TEST(RatingsData, that_leave_fewer_others_has_each_of_them_again) {
  const RatingSplits splits = split_ratings(many(), {});  // each user leaves 52
  const Rows row = rows(*splits.validation, {7});
  std::map<std::int64_t, int> count;
  for (std::size_t k = 1; k < 100; ++k) ++count[row.items[k]];
  EXPECT_EQ(count.size(), 52u);
  for (const auto& [item, times] : count) EXPECT_TRUE(times == 1 || times == 2) << item;
}

/// [sample] its row, of the ranks' and threads' batches of an epoch.
std::map<std::int64_t, std::tuple<std::int64_t, std::int64_t, float>> epoch_of(const Dataset& data, DataLoaderOptions options, std::int64_t epoch,
                                                                               std::int64_t first = 0) {
  std::map<std::int64_t, std::tuple<std::int64_t, std::int64_t, float>> out;
  for (options.rank = 0; options.rank < options.ranks; ++options.rank) {
    DataLoader loader(data, options);
    loader.start(epoch, first);
    while (const auto batch = loader.next()) {
      const Rows row = rows(batch->tensors);
      for (std::int64_t j = 0; j < batch->samples; ++j) {
        const auto i = static_cast<std::size_t>(j);
        EXPECT_TRUE(out.emplace(batch->position(j), std::tuple(row.users[i], row.items[i], row.labels[i])).second);
      }
    }
  }
  return out;
}

TEST(RatingsData, is_drawn_alike_by_any_rank_and_thread_and_anew_in_each_epoch) {
  const RatingSplits splits = split_ratings(many(), {.seed = 4});
  const DataLoaderOptions one{.batch_size = 13, .augment = Augment::standard, .seed = 4, .workers = 0};
  const auto expected = epoch_of(*splits.train, one, 2);
  EXPECT_EQ(std::ssize(expected), splits.train->size());
  DataLoaderOptions shared = one;
  shared.ranks = 3;
  shared.micro_batches = 2;
  shared.workers = 2;
  EXPECT_EQ(epoch_of(*splits.train, shared, 2), expected);
  auto rest = expected;
  std::erase_if(rest, [](const auto& row) { return row.first < 5 * 13; });
  EXPECT_EQ(epoch_of(*splits.train, shared, 2, 5), rest) << "begun in the middle";
  const auto in_order = [&](Augment augment, std::int64_t epoch) {
    return epoch_of(*splits.train, {.batch_size = 13, .shuffle = Shuffle::off, .augment = augment, .seed = 4, .workers = 0}, epoch);
  };
  EXPECT_NE(in_order(Augment::standard, 2), in_order(Augment::standard, 3));
  EXPECT_EQ(in_order(Augment::none, 2), in_order(Augment::none, 3)) << "unless that is not wanted";
  EXPECT_EQ(in_order(Augment::none, 2), in_order(Augment::standard, 0));
}

TEST(RatingsData, keeps_the_first_samples) {
  const RatingSplits all = split_ratings(many(), {}), few = split_ratings(many(), {.limit = 7});
  EXPECT_EQ(few.train->size(), 7);
  EXPECT_EQ(few.validation->size(), 7);
  EXPECT_EQ(few.users, 30) << "tables stay whole";
  EXPECT_EQ(rows(*few.train, {0, 6}), rows(*all.train, {0, 6}));
  EXPECT_EQ(rows(*few.validation, {6}), rows(*all.validation, {6}));
}

TEST(RatingsData, names_file_and_line_of_what_is_wrong) {
  const RatingsFile file;
  const auto refused = [&](std::string_view text) { return message_of<DataError>([&] { file.open(text); }); };
  const std::string of = "ratings: " + file.path().string();
  EXPECT_EQ(refused(""), of + " has no lines; accepted: user, item, rating, time in each, with tabs between");
  EXPECT_EQ(refused("a\t1\na\t2\n"), of + " has one user; accepted: two or more");
  EXPECT_EQ(refused("a\t1\nb 2\n"), of + ", line 2: it has 1 column; accepted: 2 to 4, with tabs between: user, item, rating, time");
  EXPECT_EQ(refused("a\t1\t2\t3\t4\n"), of + ", line 1: it has 5 columns; accepted: 2 to 4, with tabs between: user, item, rating, time");
  EXPECT_EQ(refused("a\t1\n\nb\t2\n"), of + ", line 2: it has 1 column; accepted: 2 to 4, with tabs between: user, item, rating, time");
  EXPECT_EQ(refused("a\t1\t5\nb\t2\t5\t9\n"), of + ", line 2: it has 4 columns; accepted: 3, as the lines before");
  EXPECT_EQ(refused("a\t1\nb\t\n"), of + ", line 2: its item is empty; accepted: any text");
  EXPECT_EQ(refused("\t1\n"), of + ", line 1: its user is empty; accepted: any text");
  EXPECT_EQ(refused("user\titem\trating\na\t1\t5\n"), of + ", line 1: its rating is 'rating'; accepted: a number");
  for (const char* wrong : {"", " 5", "5 ", "1e999", "nan", "inf", "0x1", "5,0"})
    EXPECT_EQ(refused(fmt::format("a\t1\t5\t{}\n", wrong)), fmt::format("{}, line 1: its time is '{}'; accepted: a number", of, wrong));
  EXPECT_EQ(refused(std::string("a\t1\nb\t2\0\n", 9)), of + ", line 2: it has a NUL byte; accepted: text");
  EXPECT_EQ(refused("a\t1\nb\t2\nb\t1\nb\t2\n"), of + ", line 4: with it its user has met all of 2 items; accepted: users that leave one or more");
  EXPECT_EQ(refused("a\t1\nb\t1\n"), of + ", line 1: with it its user has met all of 1 item; accepted: users that leave one or more");
  std::filesystem::remove(file.path());
  EXPECT_EQ(message_of<DataError>([&] { open_ratings(file.folder(), {}); }), "read: cannot open " + file.path().string() + ": No such file or directory");
}

TEST(RatingsData, that_is_damaged_is_read_or_refused) {
  const RatingsFile file;
  std::string whole;
  for (const Interaction& i : many().lines) whole += fmt::format("u{}\t{}\t{}\t{}\n", i.user, i.item, 3, i.time);
  PhiloxStream draws(1, stream_hash("damaged ratings"));
  const auto below = [&](std::size_t n) { return draws.below(static_cast<std::uint32_t>(n)); };
  int refused = 0, read = 0;
  for (int i = 0; i < 400; ++i) {
    std::string text = whole.substr(0, draws.below(2) ? whole.size() : 40 + below(whole.size() - 40));
    const char wild[] = {'\t', '\n', '\0', '\r', '9', static_cast<char>(draws.below(256))};
    for (std::uint32_t n = draws.below(4); n > 0; --n) text[below(text.size())] = wild[below(std::size(wild))];
    try {
      const RatingSplits splits = file.open(text);
      for (const Dataset* split : {splits.train.get(), splits.validation.get()})
        for (std::int64_t s = 0; split && s < split->size(); ++s) {
          const Rows row = rows(*split, {s});
          for (std::size_t k = 0; k < row.users.size(); ++k) {
            ASSERT_TRUE(row.users[k] >= 0 && row.users[k] < splits.users);
            ASSERT_TRUE(row.items[k] >= 0 && row.items[k] < splits.items);
          }
        }
      ++read;
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 80);
  EXPECT_GT(read, 80);
}

TEST(SyntheticRatings, have_users_that_like_a_group) {
  const RatingSplits splits = synthetic_ratings({});
  EXPECT_EQ(splits.users, 512);
  EXPECT_EQ(splits.items, 256);
  EXPECT_EQ(splits.train->name(), "synthetic");
  EXPECT_EQ(splits.train->size(), 512 * 19 * 5);
  EXPECT_EQ(splits.validation->size(), 512);
  const auto learnt_from = learnt(splits);
  const Last last = held_out(splits);
  std::map<std::int64_t, std::map<std::int64_t, int>> groups;  // of each user's items
  for (const auto& [user, item] : learnt_from) ++groups[user][item % 8];
  std::set<std::int64_t> liked;
  for (const auto& [user, counts] : groups) {
    const auto most = std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; });
    EXPECT_EQ(most->second, 17);
    EXPECT_EQ(last.at(user) % 8, most->first);
    liked.insert(most->first);
  }
  EXPECT_EQ(liked.size(), 8u);
  EXPECT_NE(learnt(synthetic_ratings({.ratings = {.seed = 2}})), learnt_from);
}

TEST(SyntheticRatings, have_as_many_samples_as_are_asked_for_or_refuse) {
  EXPECT_EQ(synthetic_ratings({.users = 4, .items = 100, .samples = 900}).train->size(), 4 * 45 * 5);
  EXPECT_EQ(synthetic_ratings({.users = 2, .items = 4, .samples = 10}).train->size(), 10);
  EXPECT_EQ(message_of<UsageError>([] { synthetic_ratings({.users = 2, .items = 4, .samples = 11}); }),
            "synthetic: 11 samples of 2 users and 4 items; accepted: at most 10");
  EXPECT_EQ(message_of<UsageError>([] { synthetic_ratings({.users = 1}); }), "synthetic: 1 users and 256 items; accepted: 2..1073741824 and 4..1073741824");
}

}  // namespace
}  // namespace gemel::datasets
