# SPDX-License-Identifier: Apache-2.0
# Installed: headers, the library, files for find_package(fovea) and for pkg-config, and the command if it is built.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/fovea DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS fovea EXPORT fovea-targets)
if(TARGET fovea_cli)
  file(RELATIVE_PATH to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(fovea_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${to_lib}")
  install(TARGETS fovea_cli)
endif()

install(DIRECTORY ${PROJECT_BINARY_DIR}/kernels/ DESTINATION ${CMAKE_INSTALL_LIBDIR}/fovea OPTIONAL
        FILES_MATCHING PATTERN "*.bundle" PATTERN cache EXCLUDE)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fovea)
install(EXPORT fovea-targets NAMESPACE fovea:: DESTINATION ${package_dir})
configure_package_config_file(cmake/fovea-config.cmake.in ${PROJECT_BINARY_DIR}/fovea-config.cmake
                              INSTALL_DESTINATION ${package_dir})
# Before 1.0 each minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fovea-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/fovea-config.cmake ${PROJECT_BINARY_DIR}/fovea-config-version.cmake
        DESTINATION ${package_dir})

# A shared libfovea carries its dependencies; whoever links the static one needs them on the command line.
if(BUILD_SHARED_LIBS)
  set(pc_private ".private")
else()
  set(pc_static_libs " -lstdc++ -lm -pthread")
endif()
file(RELATIVE_PATH pc_up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/fovea.pc.in ${PROJECT_BINARY_DIR}/fovea.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/fovea.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
