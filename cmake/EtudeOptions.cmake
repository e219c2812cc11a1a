# SPDX-License-Identifier: Apache-2.0
# What a builder may choose. Presets (CMakePresets.json) set these; each is a line of the summary.
option(ETUDE_BUILD_TESTS "Build unit tests and the tests/ folder" ${PROJECT_IS_TOP_LEVEL})
option(ETUDE_BUILD_BENCHMARKS "Build benchmarks (needs Google Benchmark)" OFF)
option(ETUDE_BUILD_EXAMPLES "Build the programs of examples/" ${PROJECT_IS_TOP_LEVEL})
option(ETUDE_ASSERTIONS "Check the standard library's preconditions, and the slots of numbers" OFF)
set(ETUDE_CODEGEN AUTO CACHE STRING "Machine code while a program runs (needs LLVM 22.1): AUTO, ON, OFF")
set_property(CACHE ETUDE_CODEGEN PROPERTY STRINGS AUTO ON OFF)
set(ETUDE_WITH_PYTHON AUTO CACHE STRING "The Python package (needs Python 3.11 and nanobind 3.1): AUTO, ON, OFF")
set_property(CACHE ETUDE_WITH_PYTHON PROPERTY STRINGS AUTO ON OFF)
set(ETUDE_WITH_SERVE AUTO CACHE STRING "The program etude-serve (needs Boost and OpenSSL): AUTO, ON, OFF")
set_property(CACHE ETUDE_WITH_SERVE PROPERTY STRINGS AUTO ON OFF)
set(ETUDE_WITH_GRPC AUTO CACHE STRING "gRPC in etude-serve (needs gRPC and protobuf): AUTO, ON, OFF")
set_property(CACHE ETUDE_WITH_GRPC PROPERTY STRINGS AUTO ON OFF)
option(ETUDE_PRECOMPILE "Precompiled headers, for builds in which most sources are compiled" OFF)
option(ETUDE_UNITY "In builds with tests, several sources of a test or of the library compiled as one, for builds from nothing" OFF)
option(ETUDE_FUZZ_TYPE_RULES "Build the fuzz target of type rules, which takes clang over eight minutes" OFF)
set(ETUDE_SANITIZE "" CACHE STRING "Sanitizers, as g++ spells them: address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

include(GNUInstallDirs)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_LINK_DEPENDS_NO_SHARED ON)  # a rebuilt libetude.so relinks no program
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

find_program(ETUDE_CCACHE ccache)
if(ETUDE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(launcher "${ETUDE_CCACHE}")
  # pip sets no environment: the settings of CMakePresets.json, with which a wheel finds what ./dev has compiled.
  if(SKBUILD)
    set(launcher "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
                 CCACHE_COMPILERCHECK=content CCACHE_COMMENTS=1 CCACHE_DEPEND=1
                 CCACHE_SLOPPINESS=pch_defines,time_macros "${ETUDE_CCACHE}")
  endif()
  set(CMAKE_C_COMPILER_LAUNCHER "${launcher}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${launcher}")
endif()
