// Launch: argument of a variant's `launch` function. It holds the problem and its memory, and enqueues kernels.
#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <initializer_list>
#include <ranges>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/numbers.h"
#include "engine/core/op.h"
#include "opencl/device/device.h"

namespace gemel {

/// Device on which kernels are enqueued, and its error word, in which kernels report an index or length out of range:
/// five int32 {code, value, value, bound, bound}, with each 64-bit number as two halves, lower first; code 0 means no error.
struct LaunchTarget {
  opencl::Device& device;
  opencl::Region error_word;
};

/// Arguments of a kernel, in order: `Arguments(l.inputs(), l.out(0), rows, columns)`. A kernel gets int64 as `long`, int32 and bool as `int`, float and
/// double as `float`. A list adds each of its elements.
class Arguments : public std::vector<opencl::Argument> {
 public:
  template <class... T>
  Arguments(const T&... what) {
    add(what...);
  }
  template <class... T>
  void add(const T&... what) {
    if (const std::size_t needed = (size() + ... + count(what)); needed > capacity()) reserve(std::max(needed, 2 * capacity()));
    (add_one(what), ...);
  }

 private:
  template <class T>
  static std::size_t count(const T& what) {
    if constexpr (std::ranges::range<T>)
      return std::ranges::size(what);
    else
      return 1;
  }
  template <class T>
  void add_one(const T& what) {
    if constexpr (std::ranges::range<T>)
      for (const auto& each : what) add_one(each);
    else if constexpr (std::same_as<T, bool>)
      emplace_back(std::int32_t{what});
    else if constexpr (std::same_as<T, double>)
      emplace_back(static_cast<float>(what));
    else
      emplace_back(what);
  }
};
/// Converts numbers that a kernel takes as `int`. @throws what narrow throws
template <class... T>
std::array<std::int32_t, sizeof...(T)> ints(T... numbers) {
  return {narrow<std::int32_t>(numbers)...};
}

class Launch {
 public:
  Launch(const LaunchTarget& target, const Problem& problem, std::span<const opencl::Region> inputs, std::span<const opencl::Region> outputs,
         const opencl::Region& workspace)
      : target_(target), problem_(problem), inputs_(inputs), outputs_(outputs), workspace_(workspace) {}

  const Problem& problem() const { return problem_; }
  const Attributes& attributes() const { return problem_.attributes; }
  const Spec& in_spec(int i) const { return problem_.inputs[static_cast<std::size_t>(i)]; }
  const Spec& out_spec(int o) const { return problem_.outputs[static_cast<std::size_t>(o)]; }
  const Shape& in_shape(int i) const { return in_spec(i).shape; }
  const Shape& out_shape(int o) const { return out_spec(o).shape; }
  const opencl::Region& in(int i) const { return inputs_[static_cast<std::size_t>(i)]; }
  const opencl::Region& out(int o) const { return outputs_[static_cast<std::size_t>(o)]; }
  std::span<const opencl::Region> inputs() const { return inputs_; }
  std::span<const opencl::Region> outputs() const { return outputs_; }
  const opencl::Region& workspace() const { return workspace_; }
  opencl::Device& device() const { return target_.device; }
  const opencl::Region& error_word() const { return target_.error_word; }
  const opencl::DeviceProfile& profile() const { return device().profile(); }

  /// True if output 0 shares no memory with an input and is, together with all inputs, larger than the caches of the device: the results then leave
  /// the caches before they are read.
  bool leaves_the_caches() const;

  /// Copies the sum that the operator adds to (OpDef::adds) to output 0, unless it lies there. Call once, before any kernel.
  /// @return true if the kernels must add their result to output 0
  bool begin_sum() const;

  /// Source of the epilogue for the last kernel of a product; empty without an epilogue.
  std::string_view epilogue_text() const { return problem_.op.epilogue ? std::string_view(problem_.op.epilogue->text) : ""; }
  /// Arguments of the epilogue, which follow those of the kernel. @param first  index of the first output element that the kernel writes
  Arguments epilogue_arguments(std::int64_t first = 0) const;
  /// The same of a kernel that gets elements [first, first + count) of the output as its whole: operands that have one for each come in that part, too.
  /// `first` must be a multiple of the device's base alignment.
  Arguments epilogue_arguments_of_part(std::int64_t first, std::int64_t count) const;

  /// Enqueues a kernel of an embedded file. @param options  compiler options, such as "-DTILE=16"
  void run(std::string_view file, std::string_view kernel, const opencl::Range& range, std::initializer_list<opencl::Argument> arguments,
           std::string_view options = {}) const {
    device().run(device().kernel(file, kernel, options), range, arguments);
  }
  void run(std::string_view file, std::string_view kernel, const opencl::Range& range, const Arguments& arguments, std::string_view options = {}) const {
    device().run(device().kernel(file, kernel, options), range, arguments);
  }

 private:
  LaunchTarget target_;
  const Problem& problem_;
  std::span<const opencl::Region> inputs_, outputs_;
  opencl::Region workspace_;
};

}  // namespace gemel
