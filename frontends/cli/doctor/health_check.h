// gemel doctor's checks: what each of them looks at and tells. A driver may crash or hang in any of them, so each runs in a process of its own.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace gemel::cli {

/// `odd`: Gemel is slower, or has less. `wrong`: it cannot run, or runs wrongly.
enum class Health { ok, odd, wrong };
/// "ok", "odd", "wrong"
const char* to_string(Health health);

struct Finding {
  Health health = Health::ok;
  std::string found;
  std::string remedy = {};  // a shell command, or in words what to do; empty where nothing is to be mended
};

/// A finding under its name: "kernel-folder".
struct Line {
  std::string name;
  Finding finding;
};

/// Of a check that runs: where it is, and what it has found.
class Report {
 public:
  virtual ~Report() = default;
  /// What comes now is of that line: where the process crashes, or does not come to the next one in time, it is told there.
  virtual void begin(const std::string& name, std::chrono::milliseconds limit) = 0;
  virtual void add(const Finding& finding) = 0;
  /// What was printed on either stream up to now, by libraries and by processes that the check started.
  virtual std::string printed() const = 0;
};

struct Check {
  static constexpr std::chrono::seconds kLimit{4};

  std::string name;                        // of its first line
  std::function<void(Report&)> look = {};  // what it throws is wrong
  std::string subject = {};                // of several checks with a line in common: what this one looks at

  Check(std::string line, std::function<void(Report&)> run, std::string of = {}) : name(std::move(line)), look(std::move(run)), subject(std::move(of)) {}
  Check(std::string line, Finding (*run)()) : name(std::move(line)), look([run](Report& report) { report.add(run()); }) {}
};

/// Program, machine and what of it may be used (machine.cpp, limits.cpp, folders.cpp).
std::vector<Check> machine_checks();
std::vector<Check> limit_checks();
std::vector<Check> folder_checks();
/// Drivers, devices, and a product on each (drivers.cpp). The lines of a device follow that of its driver.
inline constexpr const char* kDrivers = "drivers";
std::vector<Check> driver_checks();
/// GPUs without a driver (gpus.cpp).
std::vector<Check> gpu_checks();
/// A driver that ends or holds up whoever loads it is left out by what remains of them.
void add_driver_remedies(std::vector<Line>& lines);
/// What ranks need, and an all-reduce of two (network.cpp, scheduler.cpp, mpi_checks.cpp).
std::vector<Check> network_checks();
std::vector<Check> scheduler_checks();
std::vector<Check> mpi_checks();
/// Whether mpirun or the like started this process.
bool is_rank_of_live_job();
/// The exit status of a rank of the all-reduce.
int doctor_rank();

/// A command that root alone may run, as this user runs it.
std::string as_root(const std::string& command);
/// Whether this process may mount, set addresses and the like.
bool may_administer();
/// "64 KiB", "23.5 GiB"
std::string bytes_text(double bytes);
/// What mends an error that names a limit of ulimit.
std::string remedy_of_limit(const std::string& error);
/// Whether a variable of this name sets something in Open MPI.
bool is_mpi_setting(const std::string& name);
/// Names of environment variables that the predicate takes, in order.
std::vector<std::string> variables(const std::function<bool(const std::string& name)>& wanted);

}  // namespace gemel::cli
