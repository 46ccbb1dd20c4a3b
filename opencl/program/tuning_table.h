// TuningTable: the fastest variants measured on a device. `gemel tune` writes it, dispatch reads it.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "opencl/device_profile.h"

namespace gemel::opencl {

/// Parameters of a CLBlast kernel, by name.
using ClblastParameters = std::map<std::string, std::size_t>;

class TuningTable {
 public:
  /// Name of the fastest variant for a problem; null if it was not measured.
  const std::string* variant_for(const std::string& problem) const;
  /// Sets the variant of a problem. @param variant  empty: removes the entry, so that dispatch chooses
  void set(const std::string& problem, const std::string& variant);
  const std::map<std::string, std::string>& variants() const { return variants_; }
  std::map<std::string, ClblastParameters> clblast;  // by kernel

  bool empty() const { return variants_.empty() && clblast.empty(); }
  /// The table as JSON with a checksum, because damaged data would change choices. Equal tables give equal text.
  std::string text() const;
  /// Hash of the contents, which identifies the table.
  std::string name() const;
  /// Inverse of `text`. @throws DataError naming `path` if the text is invalid
  static TuningTable parse(const std::string& text, const std::filesystem::path& path);

 private:
  std::map<std::string, std::string> variants_;
};

/// Name of the tuning table in use on a device: its hash, or "none".
std::string tuning_name(const DeviceProfile& profile);

/// File of the table for a device, its driver and its number of compute units. Empty if there is no cache folder.
std::optional<std::filesystem::path> tuning_file(const DeviceProfile& profile);
/// Reads the table of a device. Empty if there is no file; with a warning, if it is damaged or another driver's.
TuningTable read_tuning(const DeviceProfile& profile);
/// Writes the table of a device. @return the file  @throws DataError if it cannot be written or there is no cache folder
std::filesystem::path write_tuning(const DeviceProfile& profile, const TuningTable& table);

}  // namespace gemel::opencl
