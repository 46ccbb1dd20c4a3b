// Shapes whose extents multiply to more than 63 bits hold.
#include "engine/base/shape.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/base/spec.h"
#include "tests/support/message_of.h"

namespace gemel {
namespace {

using testing::message_of;

constexpr std::int64_t kHuge = std::int64_t{1} << 31;

TEST(Shape, a_product_beyond_63_bits_is_refused) {
  EXPECT_EQ((Shape{kHuge, kHuge}).elements(), kHuge * kHuge);
  EXPECT_EQ(message_of<ShapeError>([] {
              return (Shape{kHuge, kHuge, 2}).elements();
            }),
            "shape: [2147483648, 2147483648, 2] has more elements than 63 bits count; accepted: fewer");
  EXPECT_EQ((Shape{kHuge, kHuge, 2}).product(1, 3), 2 * kHuge);
}

TEST(Shape, an_extent_of_0_does_not_hide_an_overflow_of_the_others) {
  EXPECT_EQ((Shape{0, kHuge, kHuge}).elements(), 0);
  EXPECT_NE(message_of<ShapeError>([] { return (Shape{0, kHuge, kHuge, 2}).elements(); }), "accepted");  // its strides overflow
}

TEST(Spec, bytes_beyond_63_bits_are_refused) {
  EXPECT_EQ((Spec{{kHuge, kHuge / 4}, DType::float32}).bytes(), kHuge * kHuge);
  EXPECT_EQ(message_of<ShapeError>([] {
              return (Spec{{kHuge, kHuge}, DType::float32}).bytes();
            }),
            "tensor: float32 [2147483648, 2147483648] has more bytes than 63 bits count; accepted: fewer");
}

}  // namespace
}  // namespace gemel
