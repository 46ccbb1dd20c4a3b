#include "engine/eager.h"

#include <array>

#include "engine/base/error.h"
#include "engine/base/span.h"
#include "engine/device_storage.h"
#include "engine/dispatch.h"
#include "opencl/device.h"

namespace gemel {

opencl::Region region_of(const Value& value) {
  const opencl::Region& whole = static_cast<const DeviceMemory&>(*value.storage()->memory).region();
  return {whole.block, whole.offset + value.offset() * static_cast<std::int64_t>(size_of(value.dtype())), value.spec().bytes()};
}

namespace {
std::vector<opencl::Region> regions_of(std::span<const Value> values) {
  std::vector<opencl::Region> out;
  out.reserve(values.size());
  for (const Value& v : values) out.push_back(region_of(v));
  return out;
}
Specs specs_of(std::span<const Value> values) {
  Specs out;
  out.reserve(values.size());
  for (const Value& v : values) out.push_back(v.spec());
  return out;
}
}  // namespace

void EagerInterpreter::compute_now(const OpDef& op, const Attributes& attributes, std::span<const Value> in,
                                   std::span<const Value> out) {
  if (op.execute) return op.execute(*this, attributes, in, out);
  const Specs in_specs = specs_of(in), out_specs = specs_of(out);
  const Problem problem{op, attributes, in_specs, out_specs};
  if (device_.profile().profiling && op.cost) {
    const Cost cost = op.cost(problem);
    device_.announce(op.name, cost.flops, cost.bytes);
  }
  launch(device_, choose(problem, device_.profile()), problem, regions_of(in), regions_of(out));
}

std::unique_ptr<Memory> EagerInterpreter::allocate(const Spec& spec, std::string_view what) {
  return std::make_unique<DeviceMemory>(device_.memory().allocate(spec.bytes(), std::string(what) + " " + to_string(spec)));
}

void EagerInterpreter::write(const Value& to, std::span<const std::byte> from) {
  if (!from.empty()) device_.write(region_of(to), from);
}
void EagerInterpreter::write(const Value& to, std::shared_ptr<const std::vector<std::byte>> from) {
  if (!from->empty()) device_.write(region_of(to), std::move(from));
}
void EagerInterpreter::read(const Value& from, std::span<std::byte> to) {
  if (!to.empty()) device_.read(region_of(from), to);
}
PendingBytes EagerInterpreter::read_later(const Value& from) {
  std::shared_ptr<opencl::PendingRead> pending = device_.read_later(region_of(from));
  return [pending] {
    const auto bytes = pending->get();
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
}
void EagerInterpreter::copy(const Value& from, const Value& to) {
  if (from.elements()) device_.copy(region_of(from), region_of(to));
}

}  // namespace gemel
