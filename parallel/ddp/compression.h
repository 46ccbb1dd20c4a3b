// Compression of gradients for communication; PyTorch calls it a communication hook.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "parallel/collectives/collectives.h"
#include "parallel/ddp/buckets.h"

namespace gemel::parallel {

/// Ranks that get the sums: every rank, during the backward pass; or the first rank alone, after it.
enum class SumsOn { every_rank, first_rank };

struct CompressionOptions {
  enum class Kind { none, float16, bfloat16, top_k };
  Kind kind = Kind::none;
  double fraction = 0.01;  // share of the gradients that top_k sends, above 0, at most 1
};

/// Compression on one rank. Sums are in float32.
class Compression {
 public:
  virtual ~Compression() = default;
  /// Replaces a range of gradients by its sum over all ranks. In the communication thread.
  virtual void sum(Collectives& c, std::span<float> gradients, const SlabRange& where) = 0;
  /// Returns what this rank has not sent yet of a range, for later steps; empty if the compression keeps nothing back. In the communication thread.
  virtual std::span<float> residual(const SlabRange& /*where*/) { return {}; }
};

/// @param slab_elements  [slab] number of its gradients
std::unique_ptr<Compression> make_compression(const CompressionOptions& options, SumsOn sums_on, std::span<const std::int64_t> slab_elements);

/// Sends the gradients of largest magnitude in each block of a range, and adds the others to those of the next step (error feedback).
/// Source: S. Stich et al., Sparsified SGD with memory, 2018.
std::unique_ptr<Compression> make_top_k(double fraction, std::span<const std::int64_t> slab_elements);

}  // namespace gemel::parallel
