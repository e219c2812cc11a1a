# SPDX-License-Identifier: Apache-2.0
# ETUDE_HAS_LLVM and the target etude_llvm, for etude/codegen: the shared library of LLVM 22.1.
set(ETUDE_HAS_LLVM OFF)
if(NOT ETUDE_CODEGEN MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "ETUDE_CODEGEN is '${ETUDE_CODEGEN}'; set AUTO, ON or OFF")
endif()
if(NOT ETUDE_CODEGEN STREQUAL "OFF")
  set(level "${CMAKE_MESSAGE_LOG_LEVEL}")
  set(CMAKE_MESSAGE_LOG_LEVEL NOTICE)  # it looks for libraries of its own, and tells
  find_package(LLVM 22.1 QUIET CONFIG PATHS /usr/lib/llvm-22)
  set(CMAKE_MESSAGE_LOG_LEVEL "${level}")
  if(LLVM_FOUND AND TARGET LLVM)
    set(ETUDE_HAS_LLVM ON)
  elseif(ETUDE_CODEGEN STREQUAL "ON")
    message(FATAL_ERROR "ETUDE_CODEGEN=ON needs LLVM 22.1 with its shared library; install it with: "
                        "apt-get install llvm-22-dev  (./dev does this for you)")
  endif()
endif()
if(ETUDE_HAS_LLVM)
  add_library(etude_llvm INTERFACE)
  target_include_directories(etude_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
  # Tests that never compile do not load it.
  target_link_libraries(etude_llvm INTERFACE -Wl,--push-state,--as-needed LLVM -Wl,--pop-state)
  set_property(GLOBAL APPEND PROPERTY ETUDE_PACKAGES "LLVM ${LLVM_PACKAGE_VERSION}")
endif()
