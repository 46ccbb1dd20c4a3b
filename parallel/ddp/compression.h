// Compression: what gradients become on their way to the other ranks, which PyTorch calls a communication hook.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "parallel/collectives/collectives.h"
#include "parallel/ddp/buckets.h"

namespace gemel::parallel {

/// Who gets the sums: all ranks, while backward goes on; or the first alone, behind it.
enum class SumsOn { every_rank, first_rank };

struct CompressionOptions {
  enum class Kind { none, float16, bfloat16, top_k };
  Kind kind = Kind::none;
  double fraction = 0.01;  // of the gradients that top_k sends, above 0, at most 1
};

/// Of one rank. Sums are float32 whatever travels.
class Compression {
 public:
  virtual ~Compression() = default;
  /// A range of gradients becomes its sum over all ranks. In the communication thread.
  virtual void sum(Collectives& c, std::span<float> gradients, const SlabRange& where) = 0;
  /// What this rank has not sent yet of a range, to be sent later; empty where nothing stays behind. In the communication thread.
  virtual std::span<float> residual(const SlabRange& /*where*/) { return {}; }
};

/// @param slab_elements  [slab] of its gradients
std::unique_ptr<Compression> make_compression(const CompressionOptions& options, SumsOn sums_on, std::span<const std::int64_t> slab_elements);

/// The largest gradients of each block of a range, by magnitude; the others are added to the next step's (error feedback).
/// Source: S. Stich et al., Sparsified SGD with memory, 2018.
std::unique_ptr<Compression> make_top_k(double fraction, std::span<const std::int64_t> slab_elements);

}  // namespace gemel::parallel
