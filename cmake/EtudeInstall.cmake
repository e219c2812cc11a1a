# SPDX-License-Identifier: Apache-2.0
# The installed package: library, headers, CMake config, pkg-config file; relocatable.
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Etude")

install(
  TARGETS etude
  EXPORT EtudeTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILE_SET generated DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
get_property(helpers GLOBAL PROPERTY ETUDE_HELPERS)
if(helpers)
  install(TARGETS ${helpers} RUNTIME DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
# All that is installed but the archives for Arm, and nothing else.
add_custom_target(etude_package)
add_dependencies(etude_package etude ${helpers})
if(TARGET etude_aot_archive)
  add_dependencies(etude_package etude_aot_archive)
endif()
# The program `etude`, and what `etude compile` links models from; the archives for Arm are there where
# its compiler is.
if(TARGET etude_program)
  install(TARGETS etude_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  add_dependencies(etude_package etude_program)
endif()
if(TARGET etude_serve_program AND NOT SKBUILD)
  install(TARGETS etude_serve_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  add_dependencies(etude_package etude_serve_program)
endif()
foreach(archive IN ITEMS etude_aot etude_aot_cxx etude_aot_arm64 etude_aot_cxx_arm64)
  install(FILES "${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}/lib${archive}.a" DESTINATION "${CMAKE_INSTALL_LIBDIR}"
          OPTIONAL)
endforeach()
install(EXPORT EtudeTargets NAMESPACE Etude:: DESTINATION "${package_dir}")

configure_package_config_file(cmake/EtudeConfig.cmake.in EtudeConfig.cmake
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(EtudeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/EtudeConfig.cmake"
              "${PROJECT_BINARY_DIR}/EtudeConfigVersion.cmake" DESTINATION "${package_dir}")

file(RELATIVE_PATH ETUDE_PC_TO_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
configure_file(cmake/etude.pc.in etude.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/etude.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
