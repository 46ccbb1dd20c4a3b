// What measurements on a device chose: `gemel tune` writes the table, dispatch reads it.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "opencl/device_profile.h"

namespace gemel::opencl {

/// Of a kernel of CLBlast, by name.
using ClblastParameters = std::map<std::string, std::size_t>;

class TuningTable {
 public:
  /// The name of the variant that was fastest for a problem; null where none is known.
  const std::string* variant_for(const std::string& problem) const;
  /// @param variant  empty: dispatch's own choice is the best
  void set(const std::string& problem, const std::string& variant);
  const std::map<std::string, std::string>& variants() const { return variants_; }
  std::map<std::string, ClblastParameters> clblast;  // by kernel

  bool empty() const { return variants_.empty() && clblast.empty(); }
  /// JSON, with a checksum: a damaged number would be taken for a choice. The same tables give the same text.
  std::string text() const;
  /// Names the table: a hash of what it says.
  std::string name() const;
  /// @throws DataError where it is not such a text, naming `path`
  static TuningTable parse(const std::string& text, const std::filesystem::path& path);

 private:
  std::map<std::string, std::string> variants_;
};

/// Names the table by which choices are made on the device: a hash of it, or "none".
std::string tuning_name(const DeviceProfile& profile);

/// The file of a device, driver and number of units, beside the cache of programs. None where there is no cache.
std::optional<std::filesystem::path> tuning_file(const DeviceProfile& profile);
/// An empty table where there is no file; likewise where it is damaged, with a warning.
TuningTable read_tuning(const DeviceProfile& profile);
/// @return the file  @throws DataError where it cannot be written, or there is no place for it
std::filesystem::path write_tuning(const DeviceProfile& profile, const TuningTable& table);

}  // namespace gemel::opencl
