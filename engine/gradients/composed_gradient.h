// The gradient rule of a record that has a definition in public operators: the definition runs again, and is differentiated.
#pragma once
#include <initializer_list>

#include "engine/gradients/autograd.h"

namespace gemel {

/// Of all inputs whose gradients are wanted. It fits a fused operator's backward record: second derivatives are rare, and need no kernel of their own.
Values composed_gradient(const Backward& b);
/// Of these inputs alone.
Values composed_gradient(const Backward& b, std::initializer_list<int> inputs);

/// x under a name of its own, to which a gradient is taken and no further. Where x has a history, that goes on behind the name.
Value begun_anew(const Value& x);

}  // namespace gemel
