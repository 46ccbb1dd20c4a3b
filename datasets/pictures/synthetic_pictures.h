// SyntheticDataset: pictures computed from (seed, index), with learnable labels. It is the data set "synthetic".
#pragma once
#include <cstdint>
#include <vector>

#include "datasets/pictures/picture_dataset.h"

namespace gemel::datasets {

/// Each class has a random pattern of 4 x 4 blocks in each channel. A picture is 0.6 times the pattern of its class plus 0.4 times noise, both uniform in [0,
/// 1); its class is random. Coarse blocks survive crops and pooling.
class SyntheticDataset final : public Pictures {
 public:
  enum class Split : std::uint32_t { train, validation };

  /// @param shape  [C, H, W]
  /// @param seed  splits of one seed share the patterns of their classes
  SyntheticDataset(const Shape& shape, std::int64_t classes, std::int64_t size, std::uint64_t seed, Split split);

  std::string_view name() const override { return "synthetic"; }
  std::int64_t size() const override { return size_; }
  std::int64_t classes() const override { return classes_; }
  const Shape& shape() const override { return shape_; }
  std::int64_t label(std::int64_t i) const override;
  void copy(std::int64_t i, const Placement& placement, std::span<float> out) const override;

 private:
  Shape shape_;
  std::int64_t classes_, size_;
  std::uint64_t seed_;
  Split split_;
  /// [classes, C, 4, 4]
  std::vector<float> patterns_;
};

}  // namespace gemel::datasets
