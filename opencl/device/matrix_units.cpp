#include "opencl/device/matrix_units.h"

#include <cmath>
#include <exception>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/numbers.h"

namespace gemel::opencl {
namespace {

/// One block of results: the least that a warp computes.
constexpr std::int64_t kRows = 16, kColumns = 8, kTerms = 24, kWarp = 32;

/// Whole numbers between -limit and limit.
std::vector<float> whole_numbers(std::int64_t count, std::int64_t limit) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(static_cast<float>((i * i * 7919 + i * 104729) % (2 * limit + 1) - limit));
  return out;
}

Buffer on_device(Device& device, const std::vector<float>& values) {
  Buffer out = device.memory().allocate(4 * std::ssize(values), "trial of matrix units");
  device.write(whole(out), std::as_bytes(std::span(values)));
  return out;
}

bool is_product(const std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& c) {
  for (std::int64_t i = 0; i < kRows; ++i)
    for (std::int64_t j = 0; j < kColumns; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < kTerms; ++k) sum += static_cast<double>(a[at(i * kTerms + k)]) * static_cast<double>(b[at(k * kColumns + j)]);
      if (static_cast<double>(c[at(i * kColumns + j)]) != sum) return false;
    }
  return true;
}

}  // namespace

std::string units_option(const DeviceProfile& profile) {
  if (profile.matrix_units == MatrixUnits::none) throw InternalError("matrix units: the device has none");
  return profile.matrix_units == MatrixUnits::mma_sync ? "-DUNITS=MMA_SYNC" : "-DUNITS=MMA_MODEL";
}

bool multiplies_exactly(Device& device) try {
  // Of 16 bits, more than the units multiply at once; no sum has more than the 24 of a float.
  const std::vector<float> a = whole_numbers(kRows * kTerms, (1 << 16) - 1), b = whole_numbers(kTerms * kColumns, 2);
  std::vector<float> c(at(kRows * kColumns), std::nanf(""));
  const Buffer on_a = on_device(device, a), on_b = on_device(device, b), on_c = on_device(device, c);
  Kernel& kernel = device.kernel(
      "gpu/gemm.cl", "gemm_tile",
      "-DROWS=16 -DCOLUMNS=8 -DDEPTH=8 -DGROUP=32 -DWARP_COLUMNS=1 -DVECTOR=4 -DSPLIT=1 -DTURNED_A=0 -DTURNED_B=0 " + units_option(device.profile()));
  const auto number = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
  device.run(kernel, range3({kWarp, 1, 1}, {kWarp, 1, 1}),
             {whole(on_a), whole(on_b), whole(on_c), number(kRows), number(kColumns), number(kTerms), number(kTerms), std::int64_t{0}, std::int64_t{0},
              std::int64_t{0}, std::int32_t{0}});
  device.read(whole(on_c), std::as_writable_bytes(std::span(c)));
  return is_product(a, b, c);
} catch (const std::exception&) {  // whatever it is, nobody asked for these units yet
  return false;
}

MatrixUnits usable_units(Device& device) try {
  constexpr std::int64_t kGroup = 256;  // of their kernels
  const MatrixUnits has = device.profile().matrix_units;
  if (device.profile().max_group_size < kGroup) return MatrixUnits::none;
  if (has != MatrixUnits::mma_sync) return has;  // a model needs no trial
  const bool works = multiplies_exactly(device);
  device.take_work();  // which is in nobody's profile
  return works ? has : MatrixUnits::none;
} catch (const DeviceError&) {  // a device that is lost says so at its next call
  return MatrixUnits::none;
}

}  // namespace gemel::opencl
