// The interpreter of a device: enqueues each operator as it is computed, for the eager front end and for graphs alike.
#pragma once
#include "engine/trace.h"

namespace gemel::opencl {
class Device;
}

namespace gemel {

class DeviceInterpreter : public Interpreter {
 public:
  explicit DeviceInterpreter(opencl::Device& device) : device_(device) {}
  std::unique_ptr<const Prepared> prepare(const OpDef& op, const Attributes& attributes, Specs inputs, Specs outputs) const override;
  std::unique_ptr<Memory> allocate(const Spec& spec, std::string_view what) override;
  std::optional<ArenaLimits> arena_limits() const override;
  std::unique_ptr<Memory> allocate_bytes(std::int64_t bytes, std::string_view what) override;
  std::unique_ptr<Memory> part_of(const Memory& slab, std::int64_t offset, std::int64_t bytes) const override;
  void write(const Value& to, std::span<const std::byte> from) override;
  void write(const Value& to, std::shared_ptr<const std::vector<std::byte>> from) override;
  void write(const Value& to, const std::function<void(std::span<std::byte>)>& make) override;
  void read(const Value& from, std::span<std::byte> to) override;
  PendingBytes read_later(const Value& from) override;
  void copy(const Value& from, const Value& to) override;

 protected:
  void compute_now(const OpDef& op, const Attributes& attributes, std::span<const Value> inputs,
                   std::span<const Value> outputs, const Prepared* prepared) override;

 private:
  struct Decided;
  void launch_decided(const Decided& decided, std::span<const Value> inputs, std::span<const Value> outputs);
  opencl::Device& device_;
};

}  // namespace gemel
