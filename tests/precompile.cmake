# SPDX-License-Identifier: Apache-2.0
# etude_precompile_fixture(NAME HEADER COMPILER ARGS...): a test that precompiles HEADER for others. Those have NAME in
# FIXTURES_REQUIRED, and compile with ARGS and `-include ${CMAKE_CURRENT_BINARY_DIR}/NAME/HEADER`. Each run does it
# anew: g++ would take one that is older than what it was made of.
function(etude_precompile_fixture name header)
  # A header that is no longer asked for must not stay: nothing would make it anew.
  file(REMOVE_RECURSE "${CMAKE_CURRENT_BINARY_DIR}/${name}")
  add_test(NAME ${name}/${header}
           COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/precompile.py
                   ${CMAKE_CURRENT_BINARY_DIR}/${name} ${header} ${ARGN})
  set_tests_properties(${name}/${header} PROPERTIES FIXTURES_SETUP ${name} TIMEOUT 120)
endfunction()
