// Slab: many tensors in one piece of memory, so that one kernel updates all of them and a collective can use any range of them.
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

/// Source of host memory for slabs. Each call returns different memory of at least `bytes`, or none: the device then allocates by itself.
using HostMemorySource = std::function<HostBytes(std::int64_t bytes)>;

struct PackOptions {
  HostMemorySource gradients = {};   // memory for the gradients; empty: the device allocates
  std::int64_t largest_bytes = 0;    // largest size of a slab; 0: the largest allocation of the device
  HostMemorySource parameters = {};  // memory for the parameters, as for gradients
};

/// Tensors in pages, one after the other. Each begins at a page; the rest of its last page is zero. Each is a storage over its range with its own
/// version.
class Slab {
 public:
  static constexpr std::int64_t kPageElements = 1024;  // 4096 bytes: a multiple of every device's alignment of sub-buffers

  Slab() = default;
  /// Makes a slab of zeros.
  /// @param specs   float32 tensors
  /// @param what    names the memory in out-of-memory errors
  /// @param source  of host memory to place the slab in; other mappings of that memory see the contents
  Slab(Session& session, const Specs& specs, std::string_view what, const HostMemorySource& source = {});

  /// All tensors with their padding, float32 [pages() * kPageElements].
  const Value& whole() const { return whole_; }
  const Value& part(std::size_t i) const { return parts_[i]; }
  const Values& parts() const { return parts_; }
  std::int64_t pages() const { return whole_.elements() / kPageElements; }
  /// Number of pages of a tensor, at least one.
  static std::int64_t pages_for(const Spec& spec);
  /// Moves a tensor into part i: copies its contents there and gives its storage the new memory, for all handles.
  void adopt(std::size_t i, const Value& tensor);

 private:
  Value whole_;
  Values parts_;
};

/// A slab of parameters, and a slab of the same layout with their gradients. A leaf refers to its slab and never leaves it.
class ParameterSlab {
 public:
  /// Moves leaves into as few slabs as the largest allocation of the device allows, in this order. Leaves that are in a slab stay there. A leaf with
  /// row gradients gets a slab of its own, so that launches over other parameters do not walk through its table.
  /// @param options  a source of memory is called once for each slab; that for gradients, for a leaf with row gradients only when a dense gradient is
  ///                 needed first
  /// @throws UsageError for a value that is not a leaf, is not float32, belongs to another session or shares memory with another tensor, and for given
  ///         memory that is not aligned to a page or too small
  /// @throws DeviceError if memory does not suffice; the leaves stay usable and can be packed again
  static void pack(std::span<const Value> leaves, const PackOptions& options = {});

  const Slab& parameters() const { return parameters_; }
  /// Slab of gradients. For a leaf with row gradients it is allocated by the first call.
  const Slab& gradients();
  /// Has a slab of the same layout hold the gradients from now on. @return the one that held them
  Slab exchange_gradients(Slab other);
  std::size_t size() const { return parameters_.parts().size(); }
  /// Makes a slab of zeros in the same layout, for a slot of an optimizer.
  Slab slot(std::string_view name) const;
  /// Page table of the update kernels, int32 [pages, 2]: {row of the hyperparameters, number of elements in use}.
  /// @param rows  row of the hyperparameters for each parameter; -1: the parameter is not updated
  Value page_table(std::span<const std::int32_t> rows) const;

 private:
  ParameterSlab(Session& session, std::span<const Value> leaves, const PackOptions& options);
  Slab parameters_, gradients_;
  HostMemorySource gradient_memory_;  // until the slab of gradients is made
};

/// Packs leaves in the order in which a backward pass from `outputs` completes their gradients, so that gradients that are ready early lie together.
/// Call it before an optimizer packs them in the reverse order of definition. Leaves that the pass does not reach come last.
void pack_in_backward_order(const Values& outputs, const Values& leaves);

/// Place of the gradient of a leaf: its range of the slab of gradients. Empty if the leaf is in no slab or has row gradients.
Value gradient_place(const Value& leaf);
/// Place of a dense gradient of any leaf in a slab, also of one that asks for row gradients.
Value dense_gradient_place(const Value& leaf);

}  // namespace gemel
