# SPDX-License-Identifier: Apache-2.0
function(install_prebuilt build)
  set(prefix "${CMAKE_INSTALL_PREFIX}")
  foreach(part IN ITEMS "" "--component;python")
    execute_process(COMMAND "${CMAKE_COMMAND}" --install "${build}" --prefix "${prefix}" --strip ${part}
                    COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
  endforeach()
  # A wheel holds no links, so the library gets one name: that of which programs know.
  file(REAL_PATH "${prefix}/lib/libetude.so" library)
  file(GLOB names RELATIVE "${prefix}/lib" "${prefix}/lib/libetude.so.*")
  cmake_path(GET library FILENAME real)
  list(REMOVE_ITEM names "${real}")  # the rest is the name in the library, a link
  file(REMOVE "${prefix}/lib/libetude.so" "${prefix}/lib/${names}")
  file(RENAME "${library}" "${prefix}/lib/${names}")
  file(GLOB targets "${prefix}/lib/cmake/Etude/EtudeTargets-*.cmake")
  foreach(path IN LISTS targets)
    file(READ "${path}" text)
    string(REPLACE "${real}" "${names}" text "${text}")
    file(WRITE "${path}" "${text}")
  endforeach()
endfunction()
