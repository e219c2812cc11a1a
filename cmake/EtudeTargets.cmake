# SPDX-License-Identifier: Apache-2.0
# The functions that folders call: etude_library, etude_test, etude_program, etude_benchmark.
#
# Every source compiles once, into the object library of its folder. Two libraries are linked from
# all objects: libetude.so, which shows what ETUDE_API marks, and etude_internal, an archive for
# tests and benchmarks, which may also reach what is hidden. libetude_load.so, the loader of saved
# functions, is linked from some of the same objects.
set_property(GLOBAL PROPERTY ETUDE_FOLDERS "")
set_property(GLOBAL PROPERTY ETUDE_HEADERS "")
set_property(GLOBAL PROPERTY ETUDE_DEPS Threads::Threads)

# Targets that build the tests of a label, for the stages of CI that need no more.
if(ETUDE_BUILD_TESTS)
  add_custom_target(unit_tests)
  add_custom_target(matrix_tests)
  add_custom_target(threads_tests)
endif()

# Sources of io that are in the loader of saved functions as well, and sources of the folders up to ops that are not.
set(ETUDE_LOADER_ADDS "safetensors|safetensors_format|npy|dense_copy|trackable|object_graph|object_match|prepared_restore")
set(ETUDE_LOADER_OMITS "parts_operators|dump|diff|line_diff|png_bytes|gradient_check|plan_layout|math_reference")

# Stops at a misspelt keyword, which CMake would otherwise swallow as a value of the one before.
macro(etude_parse flags ones manys required)
  cmake_parse_arguments(PARSE_ARGV 0 arg "${flags}" "${ones}" "${manys}")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  foreach(name IN ITEMS ${required})
    if(NOT arg_${name})
      message(FATAL_ERROR "${name} is missing")
    endif()
  endforeach()
endmacro()

# etude_unite(TARGET COUNT), for ETUDE_UNITY: up to COUNT sources of a target are compiled as one, so that what they
# have of templates and inline functions is compiled once. Of tests more than eight at once gain little; of etude/ops
# eight take 30 % off, sixteen 40, with 600 MB of memory. The library's sources are united in builds with tests alone:
# those without, such as release, compile each for itself.
function(etude_unite target count)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ETUDE_UNITY} UNITY_BUILD_BATCH_SIZE ${count})
  if(ETUDE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 warns of a member with a type of an unnamed namespace where a source is included, and of copies of
    # impossible sizes where it has inlined more. Alone the same source must not have a warning.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage -Wno-stringop-overflow)
    if(count GREATER 8)
      target_compile_options(${target} PRIVATE -Wno-error=array-bounds -Wno-error=restrict -Wno-error=maybe-uninitialized)
    endif()
  endif()
endfunction()

# etude_library(NAME core
#   HDRS tensor.h              installed as etude/core/tensor.h
#   PRIVATE_HDRS detail.h      for this tree only: may include fmt or nlohmann
#   SRCS tensor.cc
#   O3_SRCS loops.cc           sources that gain from -O3
#   PRIVATE_DEPS TBB::tbb      what SRCS and tests need beyond Etude itself
#   TESTS tensor_test          tensor_test.cc, part of the one executable core_test
#   THREAD_TESTS pool_test     the same for tests that use threads: tsan builds and runs these alone
#   TEST_SHARDS 4              split core_test for a parallel run, when it gets slow
#   ALONE                      each source is compiled alone, also with ETUDE_UNITY
#   COUNTED                    the same, but for sanitizers: tools/check_guards.py counts the instructions of a call
#   SECTIONS                   each function in a section of its own, so that ahead-of-time compiling
#                              takes those that a model needs (etude/aot)
#   TEST_ISAS                  core_test also runs on the lower instruction sets (see etude_test)
#   BENCHES tensor_bench)      tensor_bench.cc, part of the one executable core_bench
function(etude_library)
  etude_parse(
    "ALONE;COUNTED;SECTIONS;TEST_ISAS" "NAME;TEST_SHARDS"
    "HDRS;PRIVATE_HDRS;SRCS;O3_SRCS;PRIVATE_DEPS;TESTS;THREAD_TESTS;BENCHES" "NAME")
  set(target etude_${arg_NAME})
  if(arg_SRCS OR arg_O3_SRCS)
    add_library(${target} OBJECT ${arg_SRCS} ${arg_O3_SRCS} ${arg_HDRS} ${arg_PRIVATE_HDRS})
    target_link_libraries(${target} PRIVATE etude_flags fmt::fmt ${arg_PRIVATE_DEPS})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_definitions(${target} PRIVATE ETUDE_BUILDING=1)
    # Calls inside the library are direct, and thread-local state is one instruction away.
    target_compile_options(${target} PRIVATE -fno-semantic-interposition -ftls-model=initial-exec)
    if(arg_SECTIONS)
      target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections)
      set_property(GLOBAL APPEND PROPERTY ETUDE_SECTIONED ${target})
    endif()
    etude_precompile_library(${target})
    # Of SECTIONS ahead-of-time compiling takes objects one by one, but not with sanitizers.
    if(ETUDE_BUILD_TESTS AND NOT arg_ALONE AND (ETUDE_SANITIZE OR NOT arg_SECTIONS AND NOT arg_COUNTED))
      etude_unite(${target} 16)
      set(chosen ${arg_SRCS})
      list(FILTER chosen INCLUDE REGEX "(^|/)(${ETUDE_LOADER_ADDS}|${ETUDE_LOADER_OMITS})[.]cc$")
      if(chosen)
        set_source_files_properties(${chosen} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
    endif()
    if(arg_O3_SRCS AND NOT ETUDE_SANITIZE)
      # g++ compiles with the optimisation that a precompiled header was made with, whatever it is told.
      set_source_files_properties(${arg_O3_SRCS} PROPERTIES COMPILE_OPTIONS -O3
                                                            SKIP_PRECOMPILE_HEADERS ON)
    endif()
    set_property(GLOBAL APPEND PROPERTY ETUDE_FOLDERS ${target})
  else()
    add_library(${target} INTERFACE)  # headers only
  endif()
  add_library(etude::${arg_NAME} ALIAS ${target})
  set_property(GLOBAL APPEND PROPERTY ETUDE_DEPS fmt::fmt ${arg_PRIVATE_DEPS})
  list(TRANSFORM arg_HDRS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  set_property(GLOBAL APPEND PROPERTY ETUDE_HEADERS ${arg_HDRS})

  if(arg_TESTS OR arg_THREAD_TESTS)
    list(TRANSFORM arg_TESTS APPEND .cc)
    list(TRANSFORM arg_THREAD_TESTS APPEND .cc)
    set(flags "")
    if(arg_TEST_ISAS)
      list(APPEND flags ISAS)
    endif()
    if(NOT arg_SRCS AND NOT arg_O3_SRCS OR arg_NAME STREQUAL "base")
      list(APPEND flags BASE)
    endif()
    etude_test(NAME ${arg_NAME} SRCS ${arg_TESTS} THREAD_SRCS ${arg_THREAD_TESTS}
               DEPS ${arg_PRIVATE_DEPS} LABELS unit SHARDS ${arg_TEST_SHARDS} ${flags})
  endif()
  if(arg_BENCHES)
    list(TRANSFORM arg_BENCHES APPEND .cc)
    etude_benchmark(NAME ${arg_NAME} SRCS ${arg_BENCHES} DEPS ${arg_PRIVATE_DEPS})
  endif()
endfunction()

# Called once, when all folders are known: makes etude (Etude::etude), etude_load (Etude::load), etude_internal,
# and etude_records of the folders up to ops: generators need them before what calls ops compiles.
function(etude_link_libraries)
  get_property(folders GLOBAL PROPERTY ETUDE_FOLDERS)
  get_property(headers GLOBAL PROPERTY ETUDE_HEADERS)
  get_property(deps GLOBAL PROPERTY ETUDE_DEPS)
  list(REMOVE_DUPLICATES deps)
  list(TRANSFORM folders REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  get_property(helpers GLOBAL PROPERTY ETUDE_HELPERS)  # started while a program runs

  add_library(etude_internal STATIC EXCLUDE_FROM_ALL ${objects})
  target_link_libraries(etude_internal PUBLIC etude_flags ${deps})

  list(FIND objects "$<TARGET_OBJECTS:etude_ops>" last)
  math(EXPR count "${last} + 1")
  list(SUBLIST objects 0 ${count} records)
  add_library(etude_records STATIC EXCLUDE_FROM_ALL ${records})
  target_link_libraries(etude_records PUBLIC etude_flags ${deps})

  etude_shared_library(etude Etude::etude whole "${objects}")
  if(helpers)
    add_dependencies(etude_internal ${helpers})
  endif()
  set(base "${PROJECT_SOURCE_DIR}")
  set(generated "${PROJECT_BINARY_DIR}/generated")
  target_sources(
    etude
    PUBLIC FILE_SET HEADERS BASE_DIRS "${base}" FILES ${headers}
    PUBLIC FILE_SET generated TYPE HEADERS BASE_DIRS "${generated}" FILES "${generated}/etude/version.h")
  etude_link_loader("${records}")
endfunction()

# etude_load (Etude::load) loads and runs saved functions. It is linked from objects of libetude: the folders up to
# ops, saved, and the files of io that hold tensors. So it has no layers, optimisers, data, kinds, ONNX and
# ahead-of-time compiling, and none of a few files that only these, Python and tools call. Programs use the headers of
# libetude; the linker reports a missing function.
function(etude_link_loader records)
  if(ETUDE_SANITIZE OR SKBUILD)
    return()  # sanitizers find in libetude what is here as well; the package for Python has libetude
  endif()
  set(objects "$<FILTER:${records},EXCLUDE,/(${ETUDE_LOADER_OMITS})[.]cc>")
  set(tensor_files "$<FILTER:$<TARGET_OBJECTS:etude_io>,INCLUDE,/(${ETUDE_LOADER_ADDS})[.]cc>")
  etude_shared_library(etude_load Etude::load loader "${objects};$<TARGET_OBJECTS:etude_saved>;${tensor_files}")
  set_target_properties(etude_load PROPERTIES EXPORT_NAME load)
  target_link_options(etude_load PRIVATE LINKER:--gc-sections LINKER:--as-needed
                                         LINKER:-z,pack-relative-relocs)
  target_include_directories(
    etude_load INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR};${PROJECT_BINARY_DIR}/generated>"
                         "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
endfunction()

# etude_shared_library(TARGET ALIAS KIND OBJECTS): a library for users. A program that links two KINDs would
# have two registries of ops, so CMake refuses it.
function(etude_shared_library target alias kind objects)
  get_property(deps GLOBAL PROPERTY ETUDE_DEPS)
  get_property(helpers GLOBAL PROPERTY ETUDE_HELPERS)  # started while a program runs
  list(REMOVE_DUPLICATES deps)
  add_library(${target} SHARED ${objects})
  add_library(${alias} ALIAS ${target})
  target_link_libraries(${target} PRIVATE etude_flags ${deps})
  target_compile_features(${target} PUBLIC cxx_std_20)
  # Once loaded it stays: its threads, and threads that are in a call, run on after a dlclose().
  target_link_options(${target} PRIVATE LINKER:--exclude-libs,ALL LINKER:-Bsymbolic-functions LINKER:-z,nodelete
                      "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/etude.map")
  set_target_properties(
    ${target} PROPERTIES LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/etude.map" INTERFACE_ETUDE_LIBRARY ${kind}
                         COMPATIBLE_INTERFACE_STRING ETUDE_LIBRARY)
  if(NOT SKBUILD)  # a wheel holds no links, so its library has one name
    set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION}
                                               SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  endif()
  if(helpers)
    add_dependencies(${target} ${helpers})
  endif()
endfunction()

# etude_test(NAME matrix SRCS matrix_test.cc [THREAD_SRCS ..] [DEPS ..] [LABELS ..] [SHARDS n]
#            [TIMEOUT seconds] [ISAS])
#
# One GoogleTest executable NAME_test, one CTest test (SHARDS of them) labelled NAME and LABELS. What
# uses threads stands in THREAD_SRCS: then it is labelled threads as well, and the thread sanitizer,
# which finds nothing in the rest, builds and runs it of these sources alone. With
# ISAS two more, NAME.avx2 and NAME.portable, run it on the instruction sets below the machine's own;
# that which is the machine's own is skipped.
# With BASE it needs headers and etude/base alone, and is built without the library.
function(etude_test)
  if(NOT ETUDE_BUILD_TESTS)
    return()
  endif()
  etude_parse("ISAS;BASE" "NAME;SHARDS;TIMEOUT" "SRCS;THREAD_SRCS;DEPS;LABELS" "NAME")
  set(target ${arg_NAME}_test)
  if(arg_THREAD_SRCS)
    list(APPEND arg_LABELS threads)
    if(ETUDE_SANITIZE STREQUAL "thread")
      set(arg_SRCS "")
    endif()
  endif()
  list(APPEND arg_SRCS ${arg_THREAD_SRCS})
  if(arg_ISAS)
    list(APPEND arg_SRCS "${PROJECT_SOURCE_DIR}/tests/print_isa.cc")
  endif()
  add_executable(${target} ${arg_SRCS})
  set(library etude_internal)
  if(arg_BASE)
    set(library etude_base fmt::fmt)
  endif()
  target_link_libraries(${target} PRIVATE ${library} etude_flags GTest::gtest_main rapidcheck
                                          ${arg_DEPS})
  set(kind "")
  if(arg_BASE)
    list(APPEND kind BASE)
  endif()
  etude_precompile_test(${target} ${kind})
  etude_unite(${target} 8)
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  math(EXPR last "${arg_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(name ${arg_NAME})
    set(cost 0)
    if(last GREATER 0)
      set(name ${arg_NAME}.${shard})
      set(cost 50)  # long, and so to begin early, that no processor waits at the end
    endif()
    add_test(NAME ${name} COMMAND ${target} --gtest_brief=1
             WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(
      ${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_NAME};${arg_LABELS}" COST ${cost}
                         ENVIRONMENT
                    "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${shard};ETUDE_KERNEL_CACHE=off")
  endforeach()
  if(arg_ISAS AND NOT ETUDE_SANITIZE AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    # What a run must not print: it would have been on another instruction set.
    set(wrong_avx2 "set: avx512")
    set(wrong_portable "set: avx")
    foreach(isa IN ITEMS avx2 portable)
      add_test(NAME ${arg_NAME}.${isa} COMMAND ${target} --gtest_brief=1
               WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
      set_tests_properties(
        ${arg_NAME}.${isa}
        PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_NAME};isa"
                   ENVIRONMENT "ETUDE_ISA=${isa};ETUDE_TEST_LOWER_ISA=1;ETUDE_KERNEL_CACHE=off"
                   FAIL_REGULAR_EXPRESSION "${wrong_${isa}}" SKIP_REGULAR_EXPRESSION "left out: it is the best")
    endforeach()
  endif()
  foreach(label IN LISTS arg_NAME arg_LABELS)
    if(TARGET ${label}_tests)
      add_dependencies(${label}_tests ${target})
    endif()
  endforeach()
endfunction()

# etude_program(NAME lenet SRCS lenet.cc [DEPS CLI11::CLI11] [TEST_ARGS --steps 2] [INTERNAL|RECORDS|LOADER])
#
# A program that sees what a user of the package sees (INTERNAL: all symbols; RECORDS: those of
# etude_records; LOADER: what a user of the loader sees). With TEST_ARGS, one
# CTest test runs it and expects exit status 0; write TEST_ARGS "" for a run without arguments.
function(etude_program)
  etude_parse("INTERNAL;RECORDS;LOADER" "NAME" "SRCS;DEPS;TEST_ARGS" "NAME;SRCS")
  add_executable(${arg_NAME} ${arg_SRCS})
  set(library Etude::etude)
  if(arg_INTERNAL)
    set(library etude_internal)
  elseif(arg_RECORDS)
    set(library etude_records)
  elseif(arg_LOADER)
    set(library Etude::load)
  endif()
  target_link_libraries(${arg_NAME} PRIVATE ${library} etude_flags ${arg_DEPS})
  if(ETUDE_BUILD_TESTS AND (DEFINED arg_TEST_ARGS OR "TEST_ARGS" IN_LIST arg_KEYWORDS_MISSING_VALUES))
    add_test(NAME run.${arg_NAME} COMMAND ${arg_NAME} ${arg_TEST_ARGS}
             WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(run.${arg_NAME} PROPERTIES LABELS programs TIMEOUT 300)
  endif()
endfunction()

# etude_benchmark(NAME core SRCS tensor_bench.cc [DEPS ..] [OWN_MAIN]): the executable NAME_bench.
function(etude_benchmark)
  if(NOT ETUDE_BUILD_BENCHMARKS)
    return()
  endif()
  etude_parse("OWN_MAIN" "NAME" "SRCS;DEPS" "NAME;SRCS")
  set(target ${arg_NAME}_bench)
  add_executable(${target} ${arg_SRCS})
  target_link_libraries(${target} PRIVATE etude_internal etude_flags benchmark::benchmark
                                          ${arg_DEPS})
  if(NOT arg_OWN_MAIN)
    target_link_libraries(${target} PRIVATE benchmark::benchmark_main)
  endif()
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
  if(NOT TARGET benchmarks)
    add_custom_target(benchmarks)
  endif()
  add_dependencies(benchmarks ${target})
endfunction()
