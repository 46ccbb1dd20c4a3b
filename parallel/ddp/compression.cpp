#include "parallel/ddp/compression.h"

#include <algorithm>
#include <vector>

#include "engine/base/numbers.h"
#include "parallel/collectives/half_precision.h"

namespace gemel::parallel {
namespace {

void sum_elements(Collectives& c, const Elements& elements, SumsOn on) {
  if (on == SumsOn::every_rank)
    c.all_reduce(elements);
  else
    c.reduce(elements);
}

class Exact : public Compression {
 public:
  explicit Exact(SumsOn on) : on_(on) {}
  void sum(Collectives& c, std::span<float> gradients, const SlabRange&) override { sum_elements(c, elements_of(gradients), on_); }

 private:
  SumsOn on_;
};

class TwoBytes : public Compression {
 public:
  TwoBytes(DType dtype, SumsOn on) : dtype_(dtype), on_(on) {}
  void sum(Collectives& c, std::span<float> gradients, const SlabRange&) override {
    const bool half = dtype_ == DType::float16;
    rounded_.resize(gradients.size());
    std::ranges::transform(gradients, rounded_.begin(), half ? narrow_float16 : narrow_bfloat16);
    sum_elements(c, {reinterpret_cast<std::byte*>(rounded_.data()), std::ssize(rounded_), dtype_}, on_);
    std::ranges::transform(rounded_, gradients.begin(), half ? widen_float16 : widen_bfloat16);
  }

 private:
  DType dtype_;
  SumsOn on_;
  std::vector<std::uint16_t> rounded_;
};

}  // namespace

std::unique_ptr<Compression> make_compression(const CompressionOptions& options, SumsOn on, std::span<const std::int64_t> slab_elements) {
  switch (options.kind) {
    case CompressionOptions::Kind::float16:
      return std::make_unique<TwoBytes>(DType::float16, on);
    case CompressionOptions::Kind::bfloat16:
      return std::make_unique<TwoBytes>(DType::bfloat16, on);
    case CompressionOptions::Kind::top_k:
      return make_top_k(options.fraction, slab_elements);
    default:
      return std::make_unique<Exact>(on);
  }
}

}  // namespace gemel::parallel
