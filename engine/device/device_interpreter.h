// DeviceInterpreter: enqueues operators on a device at once, for the eager front end and for the executor of graphs.
#pragma once
#include <memory>

#include "engine/core/trace.h"
#include "engine/device/prepared_launch.h"

namespace gemel {

class DeviceInterpreter : public Interpreter {
 public:
  explicit DeviceInterpreter(std::shared_ptr<opencl::Device> device);
  const LaunchTarget& launch_target() const { return target_; }
  std::shared_ptr<Prepared> prepare(const OpDef& op, const Attributes& attributes, const Specs& inputs, const Specs& outputs) override;
  void expect(std::span<const OwnedProblem> problems) override;
  std::unique_ptr<Memory> allocate(const Spec& spec, std::string_view what) override;
  std::optional<ArenaLimits> arena_limits() const override;
  std::unique_ptr<Memory> allocate_bytes(std::int64_t bytes, std::string_view what) override;
  std::int64_t largest_allocation() const override;
  void trim() override;
  std::unique_ptr<Memory> part_of(std::shared_ptr<const Memory> whole, std::int64_t offset, std::int64_t bytes) const override;
  void write(const Value& to, std::span<const std::byte> from) override;
  void write(const Value& to, std::shared_ptr<const std::vector<std::byte>> from) override;
  void write(const Value& to, const std::function<void(std::span<std::byte>)>& make) override;
  void read(const Value& from, std::span<std::byte> to) override;
  PendingBytes read_later(std::span<const Value> from) override;
  void copy(const Value& from, const Value& to) override;

 protected:
  void compute_now(const OpDef& op, const Attributes& attributes, std::span<const Value> inputs, std::span<const Value> outputs, Prepared* prepared) override;

 private:
  void check_error_word(std::span<const std::byte> bytes);
  std::shared_ptr<opencl::Device> device_;
  opencl::Buffer error_;
  LaunchTarget target_;
  LaunchCache launches_;
  std::string name_;  // of what is allocated: kept for its room
};

/// Launch target of the session's device. @throws UsageError in the reference session
const LaunchTarget& launch_target(Session& session);

}  // namespace gemel
