# SPDX-License-Identifier: Apache-2.0
# Python and nanobind, for the package in python/. ETUDE_HAS_PYTHON is set where both were found.
#
# They come from the environment of pip, or from the virtual environment build/python/venv, which ./dev makes.
set(ETUDE_HAS_PYTHON OFF)
set(venv "${PROJECT_SOURCE_DIR}/build/python/venv/bin/python")
# The interpreter of a sanitizer build would need the sanitizer's library before all others.
if(ETUDE_WITH_PYTHON STREQUAL "OFF" OR (ETUDE_SANITIZE AND NOT ETUDE_WITH_PYTHON STREQUAL "ON"))
  return()
endif()
if(NOT Python_EXECUTABLE AND NOT SKBUILD AND EXISTS "${venv}")
  set(Python_EXECUTABLE "${venv}" CACHE FILEPATH "The Python to build for")
endif()
find_package(Python 3.11 QUIET COMPONENTS Interpreter Development.Module)
if(Python_FOUND)
  execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_dir
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(nanobind_dir)
    set(nanobind_DIR "${nanobind_dir}")
    find_package(nanobind 3.1 CONFIG QUIET)
  endif()
endif()
if(Python_FOUND AND nanobind_FOUND)
  set(ETUDE_HAS_PYTHON ON)
elseif(ETUDE_WITH_PYTHON STREQUAL "ON")
  message(FATAL_ERROR "ETUDE_WITH_PYTHON is ON, but Python 3.11 with its headers or nanobind 3.1 is missing. "
                      "Run ./dev python, or set Python_EXECUTABLE to a Python that has the package nanobind")
endif()
