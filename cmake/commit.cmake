# Writes OUTPUT, which tells the commit that SOURCE is at, "-changed" where files differ from it, and BUILD_TYPE. Left as it is where that has not changed.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty=-changed --exclude=* --abbrev=12
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT
"// Made at build time.\n#include \"frontends/cli/system/build_info.h\"\n\nconst char* gemel::cli::commit() { return \"${commit}\"; }\nconst char* gemel::cli::build_type() { return \"${BUILD_TYPE}\"; }\n")
