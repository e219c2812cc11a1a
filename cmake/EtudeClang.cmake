# SPDX-License-Identifier: Apache-2.0
# ETUDE_CLANG: the second compiler, which fuzz targets and the tests of what must not compile ask as well. An older
# clang is passed over: it has other words for wrong uses, and Debian's clang 14 no libFuzzer of its own. Looked for
# again each time that it is not there.
function(etude_is_clang accepted path)
  execute_process(COMMAND "${path}" -dumpversion OUTPUT_VARIABLE version RESULT_VARIABLE failed
                  ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed OR version VERSION_LESS 22)
    set(${accepted} FALSE PARENT_SCOPE)
  endif()
endfunction()
if(ETUDE_CLANG AND NOT EXISTS "${ETUDE_CLANG}")
  unset(ETUDE_CLANG CACHE)
endif()
find_program(ETUDE_CLANG NAMES clang++-22 clang++ VALIDATOR etude_is_clang)
