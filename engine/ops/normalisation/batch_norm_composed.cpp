#include "engine/ops/normalisation/batch_norm_composed.h"

#include "engine/ops/normalisation/channel_reduction.h"
#include "engine/ops/ops.h"

namespace gemel {
namespace {

/// (x - mean) gamma inverse + beta, rounded as in the kernels.
Value normalised(const Value& x, const Scaling& by, const Value& mean, const Value& inverse) {
  const Value scale = by.gamma * inverse, centred = x - mean;
  return centred * scale + by.beta;
}

}  // namespace

Values composed_batch_norm(const Values& in, const Attributes& a) {
  const Value& x = in[0];
  const Axes rows = leading_axes(x.shape());
  const auto n = static_cast<double>(columns_of(x.shape()).rows);
  const Value batch_mean = mean(x, rows), variance = mean(square(x - batch_mean), rows), inverse = rsqrt(variance + a.real("eps"));
  const auto move = [&](const Value& running, const Value& batch) { assign(running, running + (batch.detached() - running) * a.real("momentum")); };
  move(in[3], batch_mean);
  move(in[4], variance * (n / (n - 1)));
  assign(in[5], in[5] + 1);
  return {normalised(x, {in[1], in[2]}, batch_mean, inverse), batch_mean, inverse};
}

Values composed_batch_norm_inference(const Values& in, const Attributes& a) {
  const Value inverse = rsqrt(in[4] + a.real("eps"));
  return {normalised(in[0], {in[1], in[2]}, in[3], inverse)};
}

Values composed_batch_norm_backward(const Values& in, const Attributes&) {
  const Value &dy = in[0], &x = in[1], &gamma = in[2], &mean = in[3], &inverse = in[4];
  const Axes rows = leading_axes(x.shape());
  const double one = 1 / static_cast<double>(columns_of(x.shape()).rows);
  const Value xhat = (x - mean) * inverse, dgamma = sum(dy * xhat, rows), dbeta = sum(dy, rows);
  return {(dy - dbeta * one - xhat * (dgamma * one)) * (gamma * inverse), dgamma, dbeta};
}

Value batch_norm_again(const Values& in, const Values& out) { return normalised(in[0], {in[1], in[2]}, out[1], out[2]); }

}  // namespace gemel
