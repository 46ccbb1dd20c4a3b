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

/// Why the variant does not compute the problem on the device: a need that is not met, another that was asked for, a reason of its own, or a loop too
/// long for an emulator.
/// nullptr: it does. Its target is not asked: for another kind of device it is slow, not wrong.
const char* declines(const Variant& variant, const Problem& problem, const opencl::DeviceProfile& profile);

/// The variant that the device's tuning table names, else the best of those that do not decline: one for this kind of device before
/// others, then by rank, the first among equals. GEMEL_VERBOSE=dispatch prints each new choice, why, and each refusal with its reason.
/// @throws DeviceError where all decline, with their reasons
const Variant& choose(const Problem& problem, const opencl::DeviceProfile& profile, std::span<const Refused> refused = {});

/// Whether the operator's variant of this name computes the problem.
bool takes(const Problem& problem, std::string_view variant, const opencl::DeviceProfile& profile);

/// Enqueues one variant. @param in, out  device memory of the problem's inputs and outputs
void launch(Session& session, const Variant& variant, const Problem& problem, std::span<const opencl::Region> in, std::span<const opencl::Region> out);

/// What a tuning table calls the problem, with the precision of the device's products where the operator's depends on it; a product with an epilogue is
/// that product.
std::string tuning_key(const Problem& problem, const opencl::DeviceProfile& profile);

/// "float32 [2, 3], float32 [3] axis=1"
std::string to_string(const Problem& problem);

}  // namespace gemel
