// SlabShards: a model's trained parameters in slabs, and which ranges of these are each server's.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/core/session.h"
#include "engine/parameters/parameter_slab.h"
#include "frontends/optim/optimizer.h"
#include "frontends/train/step.h"

namespace gemel::distributed {

/// The same on every rank: whole pages, one parameter behind the other, are what travels.
class SlabShards {
 public:
  /// Packs the task's parameters.
  /// @param batch  specs of a worker's batch, as the task names its tensors
  SlabShards(Session& session, train::Task& task, const Specs& batch, int servers);

  int servers() const { return static_cast<int>(of_.size()); }
  /// Server of a parameter.
  int server_of(const Value& parameter) const { return server_of_.at(parameter.node().get()); }
  std::int64_t bytes(int server) const;
  /// Differs between ranks whose parameters are divided or ordered differently.
  std::uint64_t fingerprint() const { return fingerprint_; }

  enum class What { parameters, gradients };
  /// Copies a server's shard to the host. Waits for the device.
  void read(int server, What what, std::span<std::byte> to) const;
  void write(int server, What what, std::span<const std::byte> from) const;
  /// Has the host make a shard, in the device's own memory where it can.
  /// @param make  fills in the bytes that begin `first` bytes from the shard's beginning
  void write(int server, What what, const std::function<void(std::span<std::byte> bytes, std::size_t first)>& make) const;

 private:
  /// Pages of a slab.
  struct Range {
    std::shared_ptr<ParameterSlab> slab;
    std::int64_t first, elements;
  };
  static Value view(const Range& range, What what);
  std::vector<std::vector<Range>> of_;  // [server]
  std::unordered_map<const Node*, int> server_of_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace gemel::distributed
