// What gradients of other operators use of the records of matrix products.
#pragma once
#include "engine/gradients/autograd.h"

namespace gemel::inline ops {

/// left^T right of matrices [rows, *] as a rule's gradient of the float32 weight that is input i: postponed, added to the sum that it would
/// join, or in the memory that it has. @return empty where it is postponed
Value weight_gradient(const Backward& b, int i, const Value& left, const Value& right);

}  // namespace gemel::inline ops
