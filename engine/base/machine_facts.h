// The machine by name, as records and reports name it.
#pragma once
#include <string>
#include <string_view>

namespace gemel {

/// What /proc/cpuinfo has of the first processor under a key, such as "model name"; empty if nothing.
std::string of_processor(std::string_view key);
/// "Intel(R) Xeon(R) Processor"; empty where the kernel does not name it, as on some ARM machines.
std::string processor_name();
/// "Debian GNU/Linux 12 (bookworm), Linux 6.1.0, x86_64"
std::string system_name();

}  // namespace gemel
