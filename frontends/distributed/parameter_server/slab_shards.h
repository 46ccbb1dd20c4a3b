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
  /// @param options  memory for the slabs
  SlabShards(Session& session, train::Task& task, const Specs& batch, int servers, const PackOptions& options = {});

  int servers() const { return static_cast<int>(of_.size()); }
  /// Server of a parameter.
  int server_of(const Value& parameter) const { return server_of_.at(parameter.node().get()); }
  std::int64_t bytes(int server) const;
  /// Bytes of the pages of all servers.
  std::int64_t pages() const;
  static std::int64_t pages(train::Task& task);
  /// Differs between ranks whose parameters are divided or ordered differently.
  std::uint64_t fingerprint() const { return fingerprint_; }
  /// @throws CommError if the fingerprint of another rank differs
  void require_same(int rank, std::int64_t fingerprint_of_rank) const;

  enum class What { parameters, gradients };
  /// How a server's shard lies: its pages one behind the other, as messages carry it, or in its places among the pages of all servers.
  enum class Lies { alone, among_all };
  struct Bytes {
    std::span<const std::byte> bytes;
    Lies lies = Lies::alone;
  };
  /// Copies a server's shard to the host. Waits for the device.
  void read(int server, What what, std::span<std::byte> to, Lies lies = Lies::alone) const;
  void write(int server, What what, const Bytes& from) const;
  /// Where a piece of a shard begins, in bytes.
  struct Place {
    std::size_t alone, among_all;
    std::size_t in(Lies lies) const { return lies == Lies::alone ? alone : among_all; }
  };
  /// Has the host make a shard, in the device's own memory where it can.
  void write(int server, What what, const std::function<void(std::span<std::byte> bytes, const Place& from)>& make) const;
  /// Tells the session that others wrote a shard into the memory of its slabs.
  void count_as_written(int server, What what) const;

  const std::vector<std::shared_ptr<ParameterSlab>>& slabs() const { return slabs_; }

 private:
  /// Pages of a slab.
  struct Range {
    std::shared_ptr<ParameterSlab> slab;
    std::int64_t first, elements;
    Place place;
  };
  static Value view(const Range& range, What what);
  std::vector<std::shared_ptr<ParameterSlab>> slabs_;  // in the order of their pages
  std::vector<std::vector<Range>> of_;                 // [server]
  std::unordered_map<const Node*, int> server_of_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace gemel::distributed
