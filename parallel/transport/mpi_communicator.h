// Ranks that are processes which mpirun, or srun with PMI, started. The one implementation that sees MPI.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "parallel/transport/communicator.h"

namespace gemel::parallel {

/// How this process was started, read from the environment: nothing is initialised.
struct MpiLaunch {
  int rank, size;
};
/// Nothing where neither mpirun nor a PMI started it; `sbatch` alone, which sets SLURM_PROCID, does not.
/// @throws CommError where the variables hold anything but a rank and a number of ranks
std::optional<MpiLaunch> mpi_launch();

/// Names the MPI that is linked, and its version, in its own words. Nothing is initialised.
std::string mpi_library();

/// Initialises MPI. The calling thread makes all calls from now on, and destroys what it gets, which ends MPI: once in a process.
/// @throws CommError where MPI cannot be initialised
std::unique_ptr<Communicator> mpi_communicator();

}  // namespace gemel::parallel
