# SPDX-License-Identifier: Apache-2.0
# ETUDE_PRECOMPILE: what most sources include, read once for all of them, as all presets do. That a source
# includes what it uses all the same is for tools/check_includes.py, which reads the list below, and for a
# build without it.
#
# A precompiled header fits those sources alone that have the flags of the target that owns it. g++ takes
# another level of optimisation for granted and compiles with that of the header: such sources have none.

# So that ccache can keep what includes one: it sees what was included, and no times. The other half is
# CCACHE_SLOPPINESS, in CMakePresets.json. What clang precompiles has absolute paths in it, so that in another
# checkout #pragma once takes each header for a new one. CMake names clang's files by absolute paths behind
# -Xclang, which ccache leaves as they are: so each checkout finds its own alone.
#
# g++'s precompiled headers go from one checkout to another, and name the headers in them as they were found: by
# relative names, which are those of every checkout, if ninja starts the compiler where the build begins. A
# last folder behind -iquote that -I names as well g++ drops: so the root is not the last one.
file(RELATIVE_PATH ETUDE_ROOT_FROM_BUILD "${CMAKE_BINARY_DIR}" "${PROJECT_SOURCE_DIR}")
set(ETUDE_PRECOMPILE_OPTIONS
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:-iquote ${ETUDE_ROOT_FROM_BUILD} -iquote .>"
    "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")

# Of the standard, and of {fmt}, what most sources of the library include.
set(ETUDE_PRECOMPILED_STANDARD
    <algorithm> <array> <atomic> <cmath> <cstring> <functional> <map> <memory> <mutex> <numeric> <optional>
    <string> <unordered_map> <utility> <vector> <fmt/format.h>)

# The folders from core on; the two before it are a dozen sources that include little.
function(etude_precompile_library target)
  if(NOT ETUDE_PRECOMPILE OR target MATCHES "^etude_(base|device)$")
    return()
  endif()
  target_compile_options(${target} PRIVATE ${ETUDE_PRECOMPILE_OPTIONS})
  if(target STREQUAL "etude_core")
    target_precompile_headers(
      etude_core
      PRIVATE ${ETUDE_PRECOMPILED_STANDARD} "\"etude/base/check.h\"" "\"etude/core/op/batching.h\""
              "\"etude/core/call/builtin.h\"" "\"etude/core/internal/call.h\"" "\"etude/core/call/call_scope.h\""
              "\"etude/core/context/context.h\"" "\"etude/core/op/registry.h\"")
  else()
    target_precompile_headers(${target} REUSE_FROM etude_core)
  endif()
endfunction()

# etude_precompile_own(TARGET HEADERS...): for a program most of whose time goes into HEADERS. It gets those of the
# standard with them.
function(etude_precompile_own target)
  if(ETUDE_PRECOMPILE)
    target_compile_options(${target} PRIVATE ${ETUDE_PRECOMPILE_OPTIONS})
    target_precompile_headers(${target} PRIVATE ${ETUDE_PRECOMPILED_STANDARD} ${ARGN})
  endif()
endfunction()

# How a test is optimised. Instrumented bodies of tests are large: most of such a build went into
# optimising them. Elsewhere -O2 takes up to twice the time of -O1, for code that runs once or, as the op
# matrix and random programs, runs as fast with -O1.
set(ETUDE_TEST_OPTIMISATION $<$<CONFIG:RelWithDebInfo>:-O1>)
if(ETUDE_SANITIZE)
  set(ETUDE_TEST_OPTIMISATION -O0)
endif()

# Two headers: tests with BASE are linked without the library, which etude/etude.h needs.
if(ETUDE_BUILD_TESTS AND ETUDE_PRECOMPILE)
  foreach(kind IN ITEMS "" BASE_)
    string(TOLOWER "etude_${kind}test_headers" headers)
    add_library(${headers} OBJECT EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/tests/precompiled.cc")
    target_link_libraries(${headers} PRIVATE etude_flags fmt::fmt GTest::gtest_main rapidcheck)
    target_compile_options(${headers} PRIVATE ${ETUDE_TEST_OPTIMISATION} ${ETUDE_PRECOMPILE_OPTIONS})
  endforeach()
  target_precompile_headers(etude_test_headers PRIVATE <gtest/gtest.h> "\"etude/etude.h\""
                            "\"etude/core/op/registry.h\"")
  target_precompile_headers(etude_base_test_headers PRIVATE <gtest/gtest.h> "\"etude/diff.h\"")
endif()

# etude_precompile_test(TARGET [BASE]): its optimisation, and its precompiled header.
function(etude_precompile_test target)
  set(kind "")
  if("BASE" IN_LIST ARGN)
    set(kind BASE_)
  endif()
  target_compile_options(${target} PRIVATE ${ETUDE_TEST_OPTIMISATION})
  if(ETUDE_PRECOMPILE)
    target_compile_options(${target} PRIVATE ${ETUDE_PRECOMPILE_OPTIONS})
    string(TOLOWER "etude_${kind}test_headers" headers)
    target_precompile_headers(${target} REUSE_FROM ${headers})
  endif()
endfunction()

# A program that includes etude/etude.h. In a build with tests, where it is run for its result, it is compiled
# as a test is.
function(etude_precompile_program target)
  if(NOT ETUDE_BUILD_TESTS OR NOT ETUDE_PRECOMPILE)
    return()
  endif()
  etude_precompile_test(${target})
  # g++ asks for the definitions with which the header was compiled.
  target_compile_options(${target} PRIVATE $<TARGET_PROPERTY:GTest::gtest,INTERFACE_COMPILE_OPTIONS>)
  target_compile_definitions(${target} PRIVATE $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
endfunction()
