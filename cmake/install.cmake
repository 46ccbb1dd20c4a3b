# Installs the libraries, their headers under include/gemel, and a package: find_package(Gemel) gives Gemel::base,
# Gemel::opencl, Gemel::engine, Gemel::datasets, Gemel::frontends, Gemel::train, Gemel::parallel and Gemel::distributed.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Gemel)
install(TARGETS ${gemel_layers} EXPORT GemelTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gemel)
install(EXPORT GemelTargets NAMESPACE Gemel:: DESTINATION ${package_folder})

configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/GemelConfig.cmake.in ${CMAKE_BINARY_DIR}/GemelConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/GemelConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/GemelConfig.cmake ${CMAKE_BINARY_DIR}/GemelConfigVersion.cmake ${CMAKE_SOURCE_DIR}/cmake/FindUtf8proc.cmake
        DESTINATION ${package_folder})
