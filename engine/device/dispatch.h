// Dispatch: which variant computes a problem. A pure function of operator, specs, attributes, and the device profile with its
// tuning table.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/op.h"
#include "opencl/device/device.h"

namespace gemel {

class Session;

/// A variant of whose kernels the device's compiler makes nothing (opencl/program/compiler_abort.h): it declines too.
struct Refused {
  const Variant* variant;
  std::string why;
};

/// The variant that the user asked for (DeviceOptions::ablation); else the one that the device's tuning table names; else the best ranked one that
/// supports the problem, the first among equals. A product with an epilogue goes by its product's name.
/// GEMEL_VERBOSE=dispatch prints each new choice, why, and each refusal with its reason.
/// @throws DeviceError where all decline, with their reasons  @throws UsageError where the one that was asked for declines, with its reason
const Variant& choose(const Problem& problem, const opencl::DeviceProfile& profile, std::span<const Refused> refused = {});

/// Whether the operator's variant of this name computes the problem.
bool takes(const Problem& problem, std::string_view variant, const opencl::DeviceProfile& profile);

/// Enqueues one variant. @param in, out  device memory of the problem's inputs and outputs
void launch(Session& session, const Variant& variant, const Problem& problem, std::span<const opencl::Region> in, std::span<const opencl::Region> out);

/// What a tuning table calls the problem; a product with an epilogue is that product.
std::string tuning_key(const Problem& problem);

/// "float32 [2, 3], float32 [3] axis=1"
std::string to_string(const Problem& problem);

}  // namespace gemel
