// The MPI transport: ranks are processes started by mpirun, or by srun with PMI. Only its source includes mpi.h.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "parallel/transport/communicator.h"

namespace gemel::parallel {

/// Rank and number of ranks of this process, from the environment. MPI is not initialised.
struct MpiLaunch {
  int rank, size;
};
/// Returns nothing if neither mpirun nor PMI started the process; `sbatch` alone, which sets SLURM_PROCID, does not count.
/// @throws CommError if the variables do not hold a rank and a number of ranks
std::optional<MpiLaunch> mpi_launch();

/// Returns name and version of the MPI library, as it states them. MPI is not initialised.
std::string mpi_library();

/// Initialises MPI, once in a process. The calling thread must make all calls, and destroy the communicator, which finalises MPI.
/// @throws CommError if MPI cannot be initialised
std::unique_ptr<Communicator> mpi_communicator();

}  // namespace gemel::parallel
