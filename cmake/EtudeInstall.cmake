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
if(TARGET etude_load)
  install(TARGETS etude_load EXPORT EtudeTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
get_property(helpers GLOBAL PROPERTY ETUDE_HELPERS)
if(helpers)
  install(TARGETS ${helpers} RUNTIME DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
# All that is installed but the archives for Arm, and nothing else.
add_custom_target(etude_package)
add_dependencies(etude_package etude ${helpers})
if(TARGET etude_load)
  add_dependencies(etude_package etude_load)
endif()
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

# etude.pc and etude_load.pc.
file(RELATIVE_PATH ETUDE_PC_TO_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
foreach(library IN ITEMS etude etude_load)
  set(ETUDE_PC_LIBRARY ${library})
  set(ETUDE_PC_DESCRIPTION "${PROJECT_DESCRIPTION}")
  if(library STREQUAL "etude_load")
    if(NOT TARGET etude_load)
      continue()
    endif()
    set(ETUDE_PC_DESCRIPTION "Loads and runs functions that Etude saved; link it in place of libetude")
  endif()
  configure_file(cmake/etude.pc.in ${library}.pc @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${library}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()
