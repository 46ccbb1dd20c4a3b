// PreparedLaunch: one operator on operands of known specs: its variant, and what that enqueues, recorded at its first run.
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

class PreparedLaunch : public Prepared {
 public:
  /// Chooses the variant. The operator must outlive this.
  PreparedLaunch(const LaunchTarget& target, const OpDef& op, Attributes attributes, Specs inputs, Specs outputs);
  /// Enqueues it. @param in, out  with memory, of the specs given
  void run(std::span<const Value> in, std::span<const Value> out);
  /// Whether it is of this operator with these attributes, on inputs of these specs.
  template <class Operands>
  bool computes(const OpDef& op, const Attributes& attributes, const Operands& in) const;

 private:
  Problem problem() const { return {op_, attributes_, inputs_, outputs_}; }
  /// Chooses among the variants that are not refused.
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
  std::optional<Cost> cost_;  // with profiling
  std::int64_t workspace_bytes_ = 0;
  std::string workspace_name_;
  std::vector<opencl::Region> operands_;                              // inputs, outputs, workspace; of the run under way
  std::vector<std::size_t> written_;                                  // operands
  std::vector<std::unique_ptr<const opencl::Recording>> recordings_;  // one for each way in which operands coincided
  bool recordable_ = true;
};

/// Launches by operator, attributes and specs: an operator that is applied again and again, or stands at many places of a graph, has one.
class LaunchCache {
 public:
  explicit LaunchCache(const LaunchTarget& target) : target_(target) {}
  /// @return null where there is none
  PreparedLaunch* find(const OpDef& op, const Attributes& attributes, std::span<const Value> in) const;
  /// The one that is there, or a new one, which is kept where the operator is one of the catalog's: another may come to lie at any other's address.
  std::shared_ptr<PreparedLaunch> make(const OpDef& op, const Attributes& attributes, const Specs& in, const Specs& out);

 private:
  LaunchTarget target_;
  std::unordered_multimap<std::size_t, std::shared_ptr<PreparedLaunch>> launches_;  // by hash of operator, attributes and inputs
};

}  // namespace gemel
