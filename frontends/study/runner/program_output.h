// What a program leaves when it has ended: files, a last line, a status.
#pragma once
#include <filesystem>
#include <string>

#include "frontends/study/run_record.h"
#include "frontends/study/runner/child_process.h"

namespace gemel::study {

/// Empty where the file is not there.
std::string text_of(const std::filesystem::path& file);
/// The last line that says something: an error's, in a program that writes one.
std::string last_line(const std::string& text);
/// "bench train" as words.
std::vector<std::string> command_words(const Json& spec);
/// Sets a run's status and reason. @param errors  file that the program's standard error went to @param has_result  it left what it was to leave
void take_status(ProcessRecord& out, const ChildResult& ended, const std::filesystem::path& errors, bool has_result);

/// "cpu", "gpu" or another, of what a run says of its device; empty where it says nothing.
std::string device_type(const Json& machine);

}  // namespace gemel::study
