#include "opencl/pocl/fixpoint_check.h"

#include <dlfcn.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

// llvm::PassBuilder::parsePassPipeline(llvm::ModulePassManager&, llvm::StringRef)
#define GEMEL_PARSE_PASSES "_ZN4llvm11PassBuilder17parsePassPipelineERNS_11PassManagerINS_6ModuleENS_15AnalysisManagerIS2_JEEEJEEENS_9StringRefE"

namespace gemel::opencl {

/// llvm::StringRef
struct PassText {
  const char* data;
  std::size_t size;
};
/// llvm::Error: what has a destructor is returned in memory of the caller's, who destroys it.
struct PassError {
  void* payload;
  ~PassError();
};
PassError::~PassError() = default;

using ParsePasses = PassError (*)(void* builder, void* passes, PassText text);
/// Weak: an LLVM that is linked into the program counts before it.
[[gnu::visibility("default"), gnu::used, gnu::weak]] PassError parse_passes(void* builder, void* passes, PassText text) __asm__(GEMEL_PARSE_PASSES);

namespace {

/// The library that a function lies in, which is loaded anyway; null for the program itself.
void* library_of(const void* function) {
  Dl_info info{};
  if (::dladdr(function, &info) == 0 || !info.dli_fname) return nullptr;
  void* library = ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library) ::dlclose(library);  // one reference less, it stays
  return library;
}

constexpr unsigned kFirst = 18;  // version of LLVM

/// Whether the LLVM that a library is linked to knows the option.
bool knows_the_option(void* library) {
  const auto version = reinterpret_cast<void (*)(unsigned*, unsigned*, unsigned*)>(::dlsym(library, "LLVMGetVersion"));
  unsigned major = 0, minor = 0, patch = 0;
  if (version) version(&major, &minor, &patch);
  return major >= kFirst;
}

std::string without_check(std::string_view text) {
  constexpr std::string_view kPass = "(instcombine)", kUnchecked = "(instcombine<no-verify-fixpoint>)";
  std::string out(text);
  for (auto at = out.find(kPass); at != std::string::npos; at = out.find(kPass, at)) out.replace(at, kPass.size(), kUnchecked);
  return out;
}

}  // namespace

PassError parse_passes(void* builder, void* passes, PassText text) {
  void* const caller = library_of(__builtin_return_address(0));
  // A library's own symbols and those of what it is linked to, but not the program's: LLVM's function, of the version that the caller means.
  auto own = reinterpret_cast<ParsePasses>(caller ? ::dlsym(caller, GEMEL_PARSE_PASSES) : nullptr);
  if (!own || own == &parse_passes) own = reinterpret_cast<ParsePasses>(::dlsym(RTLD_NEXT, GEMEL_PARSE_PASSES));
  if (!own || own == &parse_passes) std::abort();  // somebody's call was bound to a function that is nowhere
  if (!caller || !knows_the_option(caller)) return own(builder, passes, text);
  const std::string unchecked = without_check({text.data, text.size});
  return own(builder, passes, {unchecked.data(), unchecked.size()});
}

bool checks_fixpoint(std::string_view platform_version) {
  constexpr std::string_view kLlvm = "LLVM ";
  const auto at = platform_version.find(kLlvm);
  if (platform_version.find(" PoCL 6.") == std::string_view::npos || at == std::string_view::npos) return false;
  unsigned major = 0;
  const std::string_view version = platform_version.substr(at + kLlvm.size());
  std::from_chars(version.data(), version.data() + version.size(), major);
  return major >= kFirst;
}

bool asks_no_fixpoint_of(const void* icd_object) {
  // As the loader's specification has it, an object begins with the address of a table of functions: clGetPlatformIDs, clGetPlatformInfo, ...
  const void* const* const table = *static_cast<const void* const* const*>(icd_object);
  void* const driver = library_of(table[1]);
  return driver && ::dlsym(driver, GEMEL_PARSE_PASSES) && ::dlsym(RTLD_DEFAULT, GEMEL_PARSE_PASSES) == reinterpret_cast<void*>(&parse_passes);
}

}  // namespace gemel::opencl
