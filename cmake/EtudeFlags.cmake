# SPDX-License-Identifier: Apache-2.0
# etude_flags: how every source of this tree is compiled. Never part of what a user of the package gets.
#
# Absent on purpose: -march=native (kernels choose the instruction set at run time) and fast-math.
# Contraction is off so that every mode gives the same bits; a fused multiply-add is written as one.
add_library(etude_flags INTERFACE)
target_compile_features(etude_flags INTERFACE cxx_std_20)
target_include_directories(etude_flags INTERFACE "${PROJECT_SOURCE_DIR}"
                                                 "${PROJECT_BINARY_DIR}/generated")
target_compile_options(
  etude_flags
  INTERFACE -Wall -Wextra -Wno-missing-field-initializers -ffp-contract=off -fno-math-errno
            # To clang the visibility of a namespace is that of one block, so that what a header shows
            # would be hidden where it is defined: there cmake/etude.map alone hides.
            $<$<NOT:$<COMPILE_LANG_AND_ID:CXX,Clang>>:-fvisibility=hidden>
            $<$<COMPILE_LANGUAGE:CXX>:-fvisibility-inlines-hidden>
            # clang tells of what libstdc++ 12 deprecates and uses itself, as in std::stable_sort.
            $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations>
            # g++ looks for memory that it may free each time it has doubled it, from 128 MiB on: a
            # twentieth of its time goes into that. From 512 MiB on most sources are done before.
            $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>
            # File names in messages are relative to the root, also when ccache rewrites paths.
            "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=" -fmacro-prefix-map=../../=
            # clang notes files of a precompiled header from the folder on in which it is made.
            "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fmacro-prefix-map=${PROJECT_BINARY_DIR}/../../=>")
if(ETUDE_ASSERTIONS)
  # Plans and graphs are verified, and tapes of numbers check who writes to their slots.
  target_compile_definitions(etude_flags INTERFACE _GLIBCXX_ASSERTIONS ETUDE_ASSERTIONS=1)
endif()

if(ETUDE_SANITIZE)
  set(sanitize "-fsanitize=${ETUDE_SANITIZE}")
  target_compile_options(etude_flags INTERFACE ${sanitize} -fno-sanitize-recover=all
                                               -fno-omit-frame-pointer)
  target_link_options(etude_flags INTERFACE ${sanitize})
  # Instrumented code is larger, and g++'s flow warnings misfire in it.
  target_compile_options(etude_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  # A third of the time of such a build went into element-wise programs, once per instruction set.
  # Sanitizers look at plain reads and writes, which the portable code is made of: it alone is built.
  target_compile_definitions(etude_flags INTERFACE ETUDE_PORTABLE_PROGRAMS=1)
  # Loops that this machine cannot run, no sanitizer looks at.
  set(processor "avx512f")
  if(EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo processor LIMIT_COUNT 1 REGEX "^flags")
  endif()
  if(NOT processor MATCHES "avx512f")
    target_compile_definitions(etude_flags INTERFACE ETUDE_WITHOUT_AVX512=1)
  endif()
  if(ETUDE_SANITIZE MATCHES "undefined" AND ETUDE_SANITIZE MATCHES "address")
    # What ends in the address sanitizer's report as well, where it is used, and costs a fifth of the build.
    target_compile_options(etude_flags INTERFACE -fno-sanitize=null,vptr,object-size,pointer-overflow)
  endif()
  if(ETUDE_SANITIZE MATCHES "thread")
    target_compile_definitions(etude_flags INTERFACE ETUDE_TSAN=1)
  endif()
else()
  add_link_options(LINKER:--no-undefined)
endif()
