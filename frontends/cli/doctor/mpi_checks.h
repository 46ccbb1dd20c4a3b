// Identifies an MPI and its version by the text that its programs and libraries print.
#pragma once
#include <string>

namespace gemel::cli {

struct MpiVersion {
  std::string family;   // "Open MPI", "MPICH", "Intel MPI"; empty: unknown
  std::string version;  // "4.1.4"

  std::string text() const;
  std::string major() const { return version.substr(0, version.find('.')); }
  friend bool operator==(const MpiVersion&, const MpiVersion&) = default;
};
/// Parses the output of `mpirun --version`, or of MPI_Get_library_version.
MpiVersion parse_mpi_version(const std::string& text);

}  // namespace gemel::cli
