// Checks of `gemel doctor`: what they examine and report. A driver may crash or hang in any of them, so each runs in a process of its own.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace gemel::cli {

/// odd: Gemel is slower or lacks something. wrong: it cannot run, or its results are wrong.
enum class Health { ok, odd, wrong };
/// "ok", "odd", "wrong"
const char* to_string(Health health);

struct Finding {
  Health health = Health::ok;
  std::string found;
  std::string remedy = {};  // shell command or instruction that mends it; empty if nothing needs to be mended
};

/// A finding with the name of its line, such as "kernel-folder".
struct Line {
  std::string name;
  Finding finding;
};

/// Receives the findings of a running check.
class Report {
 public:
  virtual ~Report() = default;
  /// Begins a line: later findings belong to it. If the process crashes, or does not begin the next line within the limit, that is reported in this line.
  virtual void begin(const std::string& name, std::chrono::milliseconds limit) = 0;
  virtual void add(const Finding& finding) = 0;
  /// Everything printed so far on either stream by libraries and by processes that the check started.
  virtual std::string printed() const = 0;
};

struct Check {
  static constexpr std::chrono::seconds kLimit{4};

  std::string name;                        // name of its first line
  std::function<void(Report&)> look = {};  // runs the check; an exception is a finding `wrong`
  std::string subject = {};                // what this check examines, if several checks share a line

  Check(std::string line, std::function<void(Report&)> run, std::string of = {}) : name(std::move(line)), look(std::move(run)), subject(std::move(of)) {}
  Check(std::string line, Finding (*run)()) : name(std::move(line)), look([run](Report& report) { report.add(run()); }) {}
};

/// Checks of the program, the machine and the resources that may be used (machine.cpp, limits.cpp, folders.cpp).
std::vector<Check> machine_checks();
std::vector<Check> limit_checks();
std::vector<Check> folder_checks();
/// Checks of drivers and devices, with a matrix product on each device (drivers.cpp). The lines of a device follow its driver's.
inline constexpr const char* kDrivers = "drivers";
std::vector<Check> driver_checks();
/// Checks for GPUs without a driver (gpus.cpp).
std::vector<Check> gpu_checks();
/// Adds remedies to lines of drivers that crash or hang the process that loads them: how to leave such a driver out.
void add_driver_remedies(std::vector<Line>& lines);
/// Checks of what ranks need, with an all-reduce of two ranks (network.cpp, scheduler.cpp, mpi_checks.cpp).
std::vector<Check> network_checks();
std::vector<Check> scheduler_checks();
std::vector<Check> mpi_checks();
/// Tells if mpirun or a similar launcher started this process.
bool is_rank_of_live_job();
/// Runs one rank of the check's all-reduce.
/// @return its exit status
int doctor_rank();

/// Returns a command for root in the form in which this user can run it.
std::string as_root(const std::string& command);
/// Tells if this process may mount, set addresses and the like.
bool may_administer();
/// "64 KiB", "23.5 GiB"
std::string bytes_text(double bytes);
/// Returns the remedy for an error that names a limit of ulimit.
std::string remedy_of_limit(const std::string& error);
/// Tells if a variable of this name configures Open MPI.
bool is_mpi_setting(const std::string& name);
/// Returns the sorted names of the environment variables that the predicate accepts.
std::vector<std::string> variables(const std::function<bool(const std::string& name)>& wanted);

}  // namespace gemel::cli
