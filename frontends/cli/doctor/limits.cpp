// gemel doctor: limits of the system on this process.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "engine/base/error.h"
#include "frontends/cli/doctor/health_check.h"
#include "opencl/memory/memory_limit.h"

namespace gemel::cli {
namespace {

struct Limit {
  const char *what, *option;  // of ulimit
  decltype(RLIMIT_AS) resource;
  enum { bytes, number } unit;
};
constexpr Limit kLimits[] = {{"address space", "-v", RLIMIT_AS, Limit::bytes},   {"data", "-d", RLIMIT_DATA, Limit::bytes},
                             {"stack", "-s", RLIMIT_STACK, Limit::bytes},        {"size of files", "-f", RLIMIT_FSIZE, Limit::bytes},
                             {"open files", "-n", RLIMIT_NOFILE, Limit::number}, {"processes", "-u", RLIMIT_NPROC, Limit::number}};

std::string text_of_limits() {
  std::vector<std::string> parts;
  for (const Limit& l : kLimits)
    if (rlimit is{}; ::getrlimit(l.resource, &is) == 0 && is.rlim_cur != RLIM_INFINITY)
      parts.push_back(fmt::format("{} {}", l.what, l.unit == Limit::bytes ? bytes_text(static_cast<double>(is.rlim_cur)) : std::to_string(is.rlim_cur)));
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

Finding limits() {
  constexpr rlim_t kCheckpoint = 1 << 30;  // bytes: of vgg16 with its optimizer
  try {
    opencl::check_process_limits();
  } catch (const Error& e) {
    return {Health::wrong, e.what(), remedy_of_limit(e.what())};
  }
  if (rlimit largest{}; ::getrlimit(RLIMIT_FSIZE, &largest) == 0 && largest.rlim_cur < kCheckpoint)
    return {Health::odd, text_of_limits() + ": weights and checkpoints may be larger", remedy_of_limit("(ulimit -f)")};
  return {Health::ok, text_of_limits()};
}

}  // namespace

/// Raises it as far as the system lets this user.
std::string remedy_of_limit(const std::string& error) {
  for (const Limit& l : kLimits)
    if (rlimit is{}; error.find(fmt::format("(ulimit {})", l.option)) != std::string::npos && ::getrlimit(l.resource, &is) == 0 && is.rlim_cur < is.rlim_max)
      return fmt::format("ulimit -S {0} $(ulimit -H {0})", l.option);
  return "a higher limit: in /etc/security/limits.conf, of the container (docker run --ulimit) or the service";
}

std::vector<Check> limit_checks() { return {{"limits", limits}}; }

}  // namespace gemel::cli
