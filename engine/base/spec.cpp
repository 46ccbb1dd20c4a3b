#include "engine/base/spec.h"

#include "engine/base/checked_bytes.h"
#include "engine/base/error.h"

namespace gemel {

std::int64_t Spec::bytes() const {
  const auto n = checked_bytes(shape.span(), size_of(dtype));
  if (!n) throw ShapeError("tensor: " + to_string(*this) + " has more bytes than 63 bits count; accepted: fewer");
  return *n;
}

}  // namespace gemel
