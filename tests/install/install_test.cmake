# SPDX-License-Identifier: Apache-2.0
# cmake -DSOURCE_DIR=.. -DBUILD_DIR=.. -DCXX=.. -DLIBDIR=lib -DCODEGEN=ON -P install_test.cmake
set(root "${BUILD_DIR}/tests/install")
set(prefix "${root}/moved")
file(REMOVE_RECURSE "${root}/prefix" "${prefix}" "${root}/consumer")
file(MAKE_DIRECTORY "${root}")

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " line)
    message(FATAL_ERROR "${line}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect_version)
  if(NOT output MATCHES "^etude [0-9]+\\.[0-9]+\\.[0-9]+\n$")
    message(FATAL_ERROR "the outside program printed: ${output}")
  endif()
endfunction()

# A package that is moved after installation must still be found: nothing in it may name a folder.
run(${CMAKE_COMMAND} --install "${BUILD_DIR}" --prefix "${root}/prefix")
file(RENAME "${root}/prefix" "${prefix}")
file(GLOB_RECURSE texts "${prefix}/*.cmake" "${prefix}/*.pc" "${prefix}/*.h")
foreach(path IN LISTS texts)
  file(READ "${path}" text)
  if(text MATCHES "${BUILD_DIR}")
    message(FATAL_ERROR "${path} names a folder of the build")
  endif()
endforeach()

# A header that a source of the library includes first has shown that it compiles by itself, but for what it
# takes of headers that are precompiled, which is for tools/check_includes.py.
set(shown)
file(GLOB_RECURSE sources "${SOURCE_DIR}/etude/*.cc")
foreach(source IN LISTS sources)
  file(STRINGS "${source}" first LIMIT_COUNT 1 REGEX "^#include")
  if(NOT source MATCHES "_test\\.cc$" AND first MATCHES "\"(etude/.*\\.h)\"")
    list(APPEND shown "${CMAKE_MATCH_1}")
  endif()
endforeach()
list(JOIN shown "," shown)

run(${CMAKE_COMMAND} -S "${CMAKE_CURRENT_LIST_DIR}/consumer" -B "${root}/consumer" -G Ninja
    -DCMAKE_CXX_COMPILER=${CXX} "-DCMAKE_PREFIX_PATH=${prefix}" "-DSHOWN=${shown}")
run(${CMAKE_COMMAND} --build "${root}/consumer")
run("${root}/consumer/consumer")
expect_version()

# A process that links the loader alone runs what another process saved.
function(expect_loaded program)
  file(REMOVE_RECURSE "${root}/saved")
  file(MAKE_DIRECTORY "${root}/saved")
  run("${BUILD_DIR}/bin/saved_writer" "${root}/saved/net" "${root}/saved/values.safetensors")
  run("${program}" "${root}/saved/net" "${root}/saved/values.safetensors")
  if(NOT output STREQUAL "loaded\n")
    message(FATAL_ERROR "the program with the loader printed: ${output}")
  endif()
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES "${program}" RESOLVED_DEPENDENCIES_VAR libraries)
  list(FILTER libraries INCLUDE REGEX "libetude|LLVM|dnnl")
  if(NOT libraries MATCHES "^[^;]*/libetude_load\\.so[0-9.]*$")
    message(FATAL_ERROR "the program with the loader needs: ${libraries}")
  endif()
endfunction()
expect_loaded("${root}/consumer/loads")

# Two libraries would be two registries of ops.
file(MAKE_DIRECTORY "${root}/both")
file(WRITE "${root}/both/CMakeLists.txt"
     "cmake_minimum_required(VERSION 3.25)
project(both LANGUAGES CXX)
find_package(Etude 0.1 REQUIRED)
add_executable(both ${CMAKE_CURRENT_LIST_DIR}/consumer/consumer.cc)
target_link_libraries(both PRIVATE Etude::etude Etude::load)
")
execute_process(COMMAND ${CMAKE_COMMAND} -S "${root}/both" -B "${root}/both/build" -G Ninja
                        -DCMAKE_CXX_COMPILER=${CXX} "-DCMAKE_PREFIX_PATH=${prefix}"
                RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(status EQUAL 0 OR NOT output MATCHES "ETUDE_LIBRARY")
  message(FATAL_ERROR "CMake accepted a program that links both libraries: ${output}")
endif()

# What makes code is a program, which has to be found beside the library; without it there is no code.
if(CODEGEN)
  set(ENV{ETUDE_TIER} 2)
  set(ENV{ETUDE_KERNEL_CACHE} off)
  run("${root}/consumer/compiles")
  if(NOT output MATCHES "^0 programs at Tier 1, 1 at Tier 2, made in [0-9.]+ ms; 0 waiting\n$")
    message(FATAL_ERROR "the outside program printed: ${output}")
  endif()
  file(RENAME "${prefix}/${LIBDIR}/etude-codegen" "${prefix}/elsewhere")
  run("${root}/consumer/compiles")
  if(NOT output MATCHES "[0-9]+ run on precompiled kernels; the latest since no code is generated: etude-codegen was not found")
    message(FATAL_ERROR "the outside program printed: ${output}")
  endif()
  file(RENAME "${prefix}/elsewhere" "${prefix}/${LIBDIR}/etude-codegen")
endif()

# The program comes with what it links models from.
if(AOT)
  file(WRITE "${root}/twice.graph" "graph twice(x: float32[2]) -> (float32[2])\n  %1 = add(x, x)\n  return %1\n")
  run("${prefix}/bin/etude" compile "${root}/twice.graph" -o "${root}/twice")
  if(NOT output MATCHES "twice.o .*: [0-9]+ bytes, 1 inputs, 1 outputs")
    message(FATAL_ERROR "etude compile printed: ${output}")
  endif()
endif()

find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG)
  set(ENV{PKG_CONFIG_PATH} "${prefix}/${LIBDIR}/pkgconfig")
  run(${PKG_CONFIG} --cflags --libs etude)
  separate_arguments(flags UNIX_COMMAND "${output}")
  run(${CXX} "${CMAKE_CURRENT_LIST_DIR}/consumer/consumer.cc" -o "${root}/by_pkg_config" ${flags}
      "-Wl,-rpath,${prefix}/${LIBDIR}")
  run("${root}/by_pkg_config")
  expect_version()
  run(${PKG_CONFIG} --cflags --libs etude_load)
  separate_arguments(flags UNIX_COMMAND "${output}")
  run(${CXX} "${CMAKE_CURRENT_LIST_DIR}/consumer/loads.cc" -o "${root}/loads_by_pkg_config" ${flags}
      "-Wl,-rpath,${prefix}/${LIBDIR}")
  expect_loaded("${root}/loads_by_pkg_config")
endif()
