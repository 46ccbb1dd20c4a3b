// Slabs: many tensors in one piece of memory, so that one kernel works on all of them and a collective on any run of them.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/host_view.h"
#include "engine/core/value.h"

namespace gemel {

/// Gives so many bytes of the host's memory or more, each time others. Empty, or where it gives none: a device allocates by itself.
using HostMemorySource = std::function<HostBytes(std::int64_t bytes)>;

/// Where and how parameters are packed.
struct PackOptions {
  HostMemorySource gradients = {};  // where their gradients are to lie
  std::int64_t largest_bytes = 0;   // of a slab; 0: the device's largest allocation
};

/// Tensors one after the other. Each begins a page; what is left of its last page is zero. Each is a storage over its range, with a
/// version of its own.
class Slab {
 public:
  static constexpr std::int64_t kPageElements = 1024;  // 4 096 bytes: a multiple of what any device asks of a sub-buffer's origin

  Slab() = default;
  /// Zeros. @param specs  float32  @param what  names the memory in an out-of-memory report
  /// @param source  of memory that a device is to compute in: other mappings of it see the contents
  Slab(Session& session, const Specs& specs, std::string_view what, const HostMemorySource& source = {});

  /// float32 [pages() * kPageElements]
  const Value& whole() const { return whole_; }
  const Value& part(std::size_t i) const { return parts_[i]; }
  const Values& parts() const { return parts_; }
  std::int64_t pages() const { return whole_.elements() / kPageElements; }
  /// The pages that a tensor takes: at least one.
  static std::int64_t pages_for(const Spec& spec);
  /// Moves a tensor's contents into part i, which it becomes: all its handles see the new memory.
  void adopt(std::size_t i, const Value& tensor);

 private:
  Value whole_;
  Values parts_;
};

/// Parameters in a slab, and their gradients in another of the same layout. A parameter's leaf knows its own and never leaves it.
class ParameterSlab {
 public:
  /// Moves leaves into as few slabs as the device's largest allocation allows, in this order. Those that are in one already stay. A leaf
  /// whose gradient is rows has a slab to itself, so that no launch over the others walks through its table.
  /// @param options  its source of memory for gradients is asked once for each slab; of a leaf whose gradient is rows it is kept, and asked when
  /// a dense one is first asked for
  /// @throws UsageError for what is no leaf, is not float32, is of another session than the others or shares its memory with another
  /// tensor; for given memory that does not begin a page or is too small
  /// @throws DeviceError where there is no room; the leaves are then good to use and to pack again
  static void pack(std::span<const Value> leaves, const PackOptions& options = {});

  const Slab& parameters() const { return parameters_; }
  /// Where a parameter's gradient is rows, memory for a dense one is made when it is first asked for.
  const Slab& gradients();
  std::size_t size() const { return parameters_.parts().size(); }
  /// Zeros in the same layout: what an optimizer keeps for each parameter.
  Slab slot(std::string_view name) const;
  /// What the update kernels read of each page: {row of the hyperparameters, elements that count}, int32 [pages, 2].
  /// @param rows  of each parameter; -1: it stays as it is
  Value page_table(std::span<const std::int32_t> rows) const;

 private:
  ParameterSlab(Session& session, std::span<const Value> leaves, const HostMemorySource& gradients);
  Slab parameters_, gradients_;
  HostMemorySource gradient_memory_;  // until they have theirs
};

/// Packs leaves in the order in which a backward pass from `outputs` completes their gradients, so that those that are ready early lie
/// together; to be called before an optimizer packs them in the reverse of theirs. Leaves that it does not reach come last.
void pack_in_backward_order(const Values& outputs, const Values& leaves);

/// Where the gradient of a leaf is kept: its range of a slab; empty where it is in none, or asks for rows.
Value gradient_place(const Value& leaf);
/// The same of any leaf in a slab, for a gradient that is dense although rows were asked for.
Value dense_gradient_place(const Value& leaf);

}  // namespace gemel
