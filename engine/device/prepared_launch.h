// PreparedLaunch: the variant chosen for one problem and its recorded launch. LaunchCache: prepared launches by problem.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/core/trace.h"
#include "engine/device/dispatch.h"
#include "engine/device/launch.h"
#include "opencl/device/recording.h"

namespace gemel {

/// The launch of one problem. The first run records the commands that the variant enqueues; later runs enqueue them again with other memory.
class PreparedLaunch : public Prepared {
 public:
  /// Chooses the variant. The operator must outlive this object. @throws DeviceError if all variants decline
  PreparedLaunch(const LaunchTarget& target, const OpDef& op, Attributes attributes, Specs inputs, Specs outputs);
  /// Enqueues the launch. @param in, out  values with memory, of the specs given to the constructor
  void run(std::span<const Value> in, std::span<const Value> out);
  /// True if this is the launch of this operator with these attributes on inputs of these specs.
  template <class Operands>
  bool computes(const OpDef& op, const Attributes& attributes, const Operands& in) const;

 private:
  Problem problem() const { return {op_, attributes_, inputs_, outputs_}; }
  /// Chooses among the variants whose kernels the compiler has not refused.
  void choose_variant();
  void run_variant();
  void check_apart() const;
  bool overwrites_an_input() const;
  void launch_on(opencl::Device& device, std::span<const opencl::Region> operands) const;
  void enqueue();
  const opencl::Recording* recording();
  LaunchTarget target_;
  const OpDef& op_;
  Attributes attributes_;
  Specs inputs_, outputs_;
  const Variant* variant_ = nullptr;
  std::vector<Refused> refused_;
  std::optional<Cost> cost_;  // set if work is profiled
  std::int64_t workspace_bytes_ = 0;
  std::string workspace_name_;
  std::vector<opencl::Region> operands_;                              // inputs, outputs and workspace of the current run
  std::vector<std::size_t> written_;                                  // indices of operands
  std::vector<std::unique_ptr<const opencl::Recording>> recordings_;  // one for each pattern of operands that share memory
  bool recordable_ = true;
};

/// Prepared launches by operator, attributes and input specs. Equal problems share one, in eager execution and in graphs.
class LaunchCache {
 public:
  explicit LaunchCache(const LaunchTarget& target) : target_(target) {}
  /// @return null if there is none
  PreparedLaunch* find(const OpDef& op, const Attributes& attributes, std::span<const Value> in) const;
  /// Returns the cached launch or makes one. Caches launches of operators of the catalog only: the address of another record may be reused.
  std::shared_ptr<PreparedLaunch> make(const OpDef& op, const Attributes& attributes, const Specs& in, const Specs& out);

 private:
  LaunchTarget target_;
  std::unordered_multimap<std::size_t, std::shared_ptr<PreparedLaunch>> launches_;  // by hash of operator, attributes and inputs
};

}  // namespace gemel
