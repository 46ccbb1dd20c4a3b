# Installs Gemel from BUILD, then configures, builds and runs the project in SOURCE against what was installed.
set(work ${BUILD}/tests/package)
file(REMOVE_RECURSE ${work}/prefix ${work}/build)
set(ENV{GEMEL_CACHE_DIR} ${work}/kernels)
set(ENV{POCL_CACHE_DIR} ${work}/pocl)
file(MAKE_DIRECTORY ${work}/kernels ${work}/pocl)

function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "package_find: ${ARGN}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${work}/prefix)
step(${CMAKE_COMMAND} -S ${SOURCE} -B ${work}/build -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${work}/prefix
     -DCMAKE_BUILD_TYPE=${TYPE} -DCMAKE_CXX_FLAGS=${FLAGS})
step(${CMAKE_COMMAND} --build ${work}/build)
step(${work}/build/consumer)
set(expected "[2, 2] 7 10 15 22\n[2, 2] 7 10 15 22\n")
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "package_find: the consumer printed \"${output}\", not \"${expected}\"")
endif()
