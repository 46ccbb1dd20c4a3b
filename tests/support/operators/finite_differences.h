// First- and second-order gradients of a scalar function against central differences, in the reference session.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/core/session.h"

namespace gemel::testing {

using Scalar = std::function<Value(const Values&)>;
using Data = std::vector<std::vector<double>>;  // [input]

/// Normal numbers, rounded to float32 so that device and host see the same.
std::vector<double> noise(std::int64_t n, unsigned seed, double scale = 1);
Data noise_for(const Specs& specs, unsigned seed, double scale = 1);
/// Inputs that want a gradient.
Values leaves_for(Session& session, const Specs& specs, const Data& data);
/// A scalar whose gradient is not constant in y.
Value weighted(const Value& y);

/// from + by * along; inputs that have no direction stay.
Data moved(Data from, const Data& along, double by);

/// All inputs' gradients in one list, zeros where none flows.
std::vector<double> first_order(Session& session, const Scalar& f, const Specs& specs, const Data& x);
std::vector<double> hessian_vector(Session& session, const Scalar& f, const Specs& specs, const Data& x, const Data& along);

/// The largest relative errors of the rules' gradient and Hessian-vector product.
struct DifferenceErrors {
  double first, second;
};
DifferenceErrors against_differences(const Scalar& f, const Specs& specs, double scale = 1);

}  // namespace gemel::testing
