// What tensors look like. The texts are PyTorch's own (1.13), but for the names of element types and operators.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "engine/graph/capture/program.h"
#include "frontends/eager/eager.h"

namespace gemel::eager {
namespace {

class EagerPrint : public ::testing::Test {
 protected:
  std::unique_ptr<Session> owned = Session::reference();
  Session& session = *owned;
};

TEST_F(EagerPrint, numbers_without_fraction_end_in_a_point) {
  EXPECT_EQ(to_string(tensor(session, {{1., 2.}, {3., 4.}})), "tensor([[1., 2.],\n        [3., 4.]])");
  EXPECT_EQ(to_string(tensor(session, 3.0)), "tensor(3.)");
  EXPECT_EQ(to_string(zeros(session, {2, 2})), "tensor([[0., 0.],\n        [0., 0.]])");
  EXPECT_EQ(to_string(tensor(session, {1.0, 0.0, -0.0})), "tensor([1., 0., -0.])");
}

TEST_F(EagerPrint, fractions_have_four_decimals_and_one_width) {
  EXPECT_EQ(to_string(tensor(session, {{1.5, 2.}, {3., -4.}})), "tensor([[ 1.5000,  2.0000],\n        [ 3.0000, -4.0000]])");
}

TEST_F(EagerPrint, magnitudes_far_apart_are_scientific) {
  EXPECT_EQ(to_string(tensor(session, {1e-5, 1.0})), "tensor([1.0000e-05, 1.0000e+00])");
  EXPECT_EQ(to_string(tensor(session, {1e9, 1.0})), "tensor([1.0000e+09, 1.0000e+00])");
  EXPECT_EQ(to_string(tensor(session, {100000.5, 1.25})), "tensor([1.0000e+05, 1.2500e+00])");
  EXPECT_EQ(to_string(tensor(session, {1001.0, 1.0})), "tensor([1.0010e+03, 1.0000e+00])");
  EXPECT_EQ(to_string(tensor(session, 2.5e-7)), "tensor(2.5000e-07)");
}

TEST_F(EagerPrint, infinities_and_nan_do_not_widen_columns) {
  EXPECT_EQ(to_string(tensor(session, {1.0, NAN, INFINITY})), "tensor([1., nan, inf])");
  EXPECT_EQ(to_string(tensor(session, {1.5, NAN, -INFINITY})), "tensor([1.5000,    nan,   -inf])");
  EXPECT_EQ(to_string(tensor(session, {NAN})), "tensor([nan])");
}

TEST_F(EagerPrint, integers_and_booleans_name_their_type_only_where_it_is_unusual) {
  EXPECT_EQ(to_string(tensor(session, 3)), "tensor(3)");
  EXPECT_EQ(to_string(tensor(session, {1, -20, 3}, {.dtype = DType::int32})), "tensor([  1, -20,   3], dtype=int32)");
  EXPECT_EQ(to_string(tensor(session, {{true, false}})), "tensor([[ True, False]])");
}

TEST_F(EagerPrint, empty_tensors_show_their_size) {
  EXPECT_EQ(to_string(zeros(session, {0})), "tensor([])");
  EXPECT_EQ(to_string(zeros(session, {0, 3})), "tensor([], size=(0, 3))");
  EXPECT_EQ(to_string(zeros(session, {2, 0, 3}, {.dtype = DType::int64})), "tensor([], size=(2, 0, 3), dtype=int64)");
}

TEST_F(EagerPrint, lines_break_at_eighty_columns) {
  EXPECT_EQ(to_string(arange(session, 30)),
            "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
            "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])");
}

TEST_F(EagerPrint, blocks_of_three_axes_are_apart_by_an_empty_line) {
  EXPECT_EQ(to_string(arange(session, 24.).view({2, 3, 4})),
            "tensor([[[ 0.,  1.,  2.,  3.],\n         [ 4.,  5.,  6.,  7.],\n         [ 8.,  9., 10., 11.]],\n\n"
            "        [[12., 13., 14., 15.],\n         [16., 17., 18., 19.],\n         [20., 21., 22., 23.]]])");
}

TEST_F(EagerPrint, above_a_thousand_elements_the_middle_is_left_out) {
  EXPECT_EQ(to_string(arange(session, 1001)), "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
  EXPECT_EQ(to_string(ones(session, {1001, 2})),
            "tensor([[1., 1.],\n        [1., 1.],\n        [1., 1.],\n        ...,\n"
            "        [1., 1.],\n        [1., 1.],\n        [1., 1.]])");
  const std::string cut = to_string(arange(session, 8000).view({20, 20, 20}));
  EXPECT_EQ(cut.substr(0, 174),
            "tensor([[[   0,    1,    2,  ...,   17,   18,   19],\n         [  20,   21,   22,  ...,   37,   38,   39],\n"
            "         [  40,   41,   42,  ...,   57,   58,   59],\n         ...,\n ");
  EXPECT_NE(cut.find("1199]],\n\n        ...,\n\n        [[6800,"), std::string::npos) << cut;
  EXPECT_EQ(to_string(zeros(session, {1000}, {.dtype = DType::int64})).find("..."), std::string::npos);
}

TEST_F(EagerPrint, gradients_are_announced) {
  const Tensor x = tensor(session, {1.5}).requires_grad_();
  EXPECT_EQ(to_string(x), "tensor([1.5000], requires_grad=True)");
  EXPECT_EQ(to_string(x + 1), "tensor([2.5000], grad_fn=<AddBackward>)");
  EXPECT_EQ(to_string(tensor(session, {1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5}, {.requires_grad = true}) * 1),
            "tensor([1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000],\n       grad_fn=<MultiplyBackward>)");
}

TEST_F(EagerPrint, names_of_a_graph_are_shown_as_such) {
  std::string text;
  capture(session, {f32({2, 3})}, [&text](const Values& in) {
    text = to_string(Tensor(in[0]));
    return in;
  });
  EXPECT_EQ(text, "tensor(<symbolic float32 [2, 3]>)");
  EXPECT_EQ(to_string(Tensor()), "tensor(undefined)");
}

TEST_F(EagerPrint, streams_write_the_same_text) {
  std::ostringstream out;
  out << tensor(session, {1, 2});
  EXPECT_EQ(out.str(), "tensor([1, 2])");
}

}  // namespace
}  // namespace gemel::eager
