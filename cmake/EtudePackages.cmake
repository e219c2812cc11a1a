# SPDX-License-Identifier: Apache-2.0
# Everything Etude is built from comes from the system; nothing is downloaded. A missing package stops
# configuring with the name that Debian gives it.
set_property(GLOBAL PROPERTY ETUDE_PACKAGES "")

# etude_require(PACKAGE TARGET DEBIAN...): finds PACKAGE, which has to give TARGET.
function(etude_require package target)
  list(JOIN ARGN " " debian)
  set(advice "install it with: apt-get install ${debian}  (./dev does this for you)")
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "Etude needs ${package}; ${advice}")
  endif()
  if(NOT TARGET ${target})
    message(FATAL_ERROR "${package} was found in ${${package}_DIR}, but gives no target ${target}; ${advice}")
  endif()
  set_target_properties(${target} PROPERTIES SYSTEM ON)
  string(STRIP "${package} ${${package}_VERSION}" line)
  set_property(GLOBAL APPEND PROPERTY ETUDE_PACKAGES "${line}")
endfunction()

# Imported targets are visible in the folder that found them, so find in the root's scope.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)
etude_require(Threads Threads::Threads libc6-dev)
etude_require(fmt fmt::fmt libfmt-dev)
etude_require(nlohmann_json nlohmann_json::nlohmann_json nlohmann-json3-dev)
etude_require(TBB TBB::tbb libtbb-dev)
etude_require(dnnl DNNL::dnnl libdnnl-dev ocl-icd-opencl-dev opencl-headers)
etude_require(ZLIB ZLIB::ZLIB zlib1g-dev)
etude_require(CLI11 CLI11::CLI11 libcli11-dev)
if(ETUDE_BUILD_TESTS)
  etude_require(GTest GTest::gtest_main libgtest-dev)
  etude_require(rapidcheck rapidcheck librapidcheck-dev)
  etude_require(Python3 Python3::Interpreter python3)
endif()
if(ETUDE_BUILD_BENCHMARKS)
  etude_require(benchmark benchmark::benchmark libbenchmark-dev)
endif()
