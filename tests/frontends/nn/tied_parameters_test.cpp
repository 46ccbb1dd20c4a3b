// Tied parameters: frozen under all their names, recomputed, and the head of a language model, which multiplies by its table.
#include <gtest/gtest.h>

#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/graph/compile.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/state/state_dict.h"

namespace gemel::nn {
namespace {

using Numbers = std::vector<double>;

/// Words [B, T] to scores [B, T, 5]. @tparam Head  TiedLinear, or a Linear with a weight of its own
template <class Head>
struct LanguageModel : Module {
  Embedding& words = add<Embedding>("words", 5, 3);
  Head& head = add_head();
  explicit LanguageModel(Session& session) { materialise(session); }
  Head& add_head() {
    if constexpr (std::is_same_v<Head, TiedLinear>)
      return add<TiedLinear>("head", words);
    else
      return add<Linear>("head", 3, 5);
  }
  Value forward(Value x) override { return head(words(std::move(x))); }
  /// Of the sum of squares, by the named parameters. @param names  of parameters
  std::vector<Numbers> gradients(const Value& x, const std::vector<std::string>& names) {
    Values of;
    for (const std::string& name : names) of.push_back(*parameters().find(name));
    std::vector<Numbers> out;
    for (const Value& g : gradient({sum(square((*this)(x)))}, of)) out.push_back(read(g));
    return out;
  }
};
using Tied = LanguageModel<TiedLinear>;

Value words_of(Session& session) { return session.tensor({Shape{2, 3}, DType::int64}, Numbers{4, 2, 4, 0, 2, 1}); }

class TiedParameters : public ::testing::Test {
 protected:
  std::unique_ptr<Session> owned = Session::reference(3);
  Session& session = *owned;
  Tied model{session};
  Value x = words_of(session);
};

TEST_F(TiedParameters, freezing_under_either_name_freezes_the_tensor) {
  const Value& table = model.words.weight().tensor();
  model.head.freeze();
  EXPECT_FALSE(table.wants_gradient());
  EXPECT_TRUE(model.parameters().trainable().empty());
  model.words.unfreeze();
  EXPECT_TRUE(table.wants_gradient());
  model.words.freeze();
  model.head.unfreeze();
  EXPECT_TRUE(table.wants_gradient());
}

TEST_F(TiedParameters, a_frozen_backbone_leaves_the_head_in_training) {
  model.freeze_backbone();
  ASSERT_EQ(model.parameters().trainable().size(), 2u) << "the table and the head's bias";
  for (const Numbers& g : model.gradients(x, {"head.weight", "head.bias"})) EXPECT_FALSE(g.empty());
}

TEST_F(TiedParameters, a_compiled_pass_sees_what_is_frozen_under_another_name) {
  struct Norms : Module {
    BatchNorm2d &first = add<BatchNorm2d>("first", 1), &second = add<BatchNorm2d>("second", 1);
    Norms() { tie(second.weight(), first.weight()); }
  } norms;
  norms.materialise(session);
  graph::Compiled second = graph::compile(session, [&](const Values& in) -> Values { return {norms.second(in[0]).detached()}; });
  const Value picture = session.tensor(f32({2, 1, 1, 1}), Numbers{1, 3});
  const Numbers by_batch = read(second({picture})[0]);
  norms.first.freeze();
  const Numbers frozen = read(second({picture})[0]);
  EXPECT_NE(frozen, by_batch) << "by the running statistics";
  EXPECT_EQ(frozen, read(norms.second(picture)));
}

TEST_F(TiedParameters, recomputation_leaves_a_name_without_a_tensor_of_its_own) {
  const std::vector<std::string> names{"words.weight", "head.bias"};
  const auto kept = model.gradients(x, names);
  model.set_recompute(Recompute::yes);
  const auto table = model.words.weight().tensor().node();
  EXPECT_EQ(model.gradients(x, names), kept);
  EXPECT_FALSE(model.head.weight().value);
  EXPECT_EQ(model.words.weight().tensor().node(), table);
}

TEST_F(TiedParameters, a_recomputed_head_gives_its_gradient_to_the_table_outside) {
  const std::vector<std::string> names{"words.weight", "head.bias"};
  const auto kept = model.gradients(x, names);
  model.head.set_recompute(Recompute::yes);
  EXPECT_EQ(model.gradients(x, names), kept);
}

constexpr double kInDouble = 1e-12;  // a few operations

TEST_F(TiedParameters, a_tied_head_is_a_linear_layer_with_the_tables_transpose) {
  LanguageModel<Linear> untied(session);
  std::vector<NamedTensor> file;
  const auto state = state_dict(model);
  for (const StateEntry& e : state) file.push_back({e.name, e.spec, e.bytes});
  load_state_dict(untied, session, file);
  const Numbers y = read(model(x)), expected = read(untied(x));
  ASSERT_EQ(y.size(), 2u * 3 * 5);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], kInDouble) << i;

  const auto found = model.gradients(x, {"words.weight", "head.bias"});
  const auto apart = untied.gradients(x, {"words.weight", "head.weight", "head.bias"});
  for (std::size_t v = 0; v < 5; ++v) {
    for (std::size_t d = 0; d < 3; ++d) EXPECT_NEAR(found[0][3 * v + d], apart[0][3 * v + d] + apart[1][5 * d + v], kInDouble) << v << ", " << d;
    EXPECT_NEAR(found[1][v], apart[2][v], kInDouble) << v;
  }
  EXPECT_EQ(model.head.describe(), "TiedLinear(3, 5)");
  EXPECT_EQ(TiedLinear(model.words, Bias::no).bias(), nullptr);
}

}  // namespace
}  // namespace gemel::nn
