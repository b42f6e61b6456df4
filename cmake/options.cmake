# SPDX-License-Identifier: BSD-3-Clause
#
# Every option of the build, and what it refuses. A misspelt value must not pass for a default: the
# build stops with a sentence that names the option, what was found and what is wanted.
option(VOLLEY_BUILD_CLI "Build the command line tool" ${PROJECT_IS_TOP_LEVEL})
option(VOLLEY_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(VOLLEY_EXPERIMENTS "Build the kernels that docs/tuning.md compares, too" OFF)
option(VOLLEY_INSTALL "Define the install rules" ${PROJECT_IS_TOP_LEVEL})
option(VOLLEY_PYTHON "Define the install rules of the Python wheel, as pyproject.toml does" OFF)
set(VOLLEY_CUDA AUTO CACHE STRING "Hopper kernels: AUTO (when a toolkit is found), ON or OFF")
set(VOLLEY_SANITIZE "" CACHE STRING "Sanitizers for everything: empty, address, undefined, thread")

# volley_check_choice(<variable> <allowed values...>)
function(volley_check_choice variable)
  set_property(CACHE ${variable} PROPERTY STRINGS ${ARGN})
  if(NOT "${${variable}}" IN_LIST ARGN)
    list(JOIN ARGN ", " wanted)
    message(FATAL_ERROR "${variable} is '${${variable}}'; wanted is one of: ${wanted}.")
  endif()
endfunction()

function(volley_check_boolean variable)
  if(NOT "${${variable}}" MATCHES "^(ON|OFF|TRUE|FALSE|YES|NO|1|0)$")
    message(FATAL_ERROR "${variable} is '${${variable}}'; wanted is ON or OFF.")
  endif()
endfunction()

volley_check_choice(VOLLEY_CUDA AUTO ON OFF)
foreach(option VOLLEY_BUILD_CLI VOLLEY_BUILD_TESTS VOLLEY_EXPERIMENTS VOLLEY_INSTALL VOLLEY_PYTHON)
  volley_check_boolean(${option})
endforeach()

# A list, "address;undefined" or "address,undefined". ThreadSanitizer excludes the address one.
string(REPLACE "," ";" VOLLEY_SANITIZERS "${VOLLEY_SANITIZE}")
foreach(sanitizer IN LISTS VOLLEY_SANITIZERS)
  if(NOT sanitizer MATCHES "^(address|undefined|thread)$")
    message(FATAL_ERROR "VOLLEY_SANITIZE holds '${sanitizer}'; wanted are address, undefined, "
      "thread, separated by commas.")
  endif()
endforeach()
if("thread" IN_LIST VOLLEY_SANITIZERS AND "address" IN_LIST VOLLEY_SANITIZERS)
  message(FATAL_ERROR "VOLLEY_SANITIZE is '${VOLLEY_SANITIZE}'; thread and address exclude each "
    "other.")
endif()
if(VOLLEY_SANITIZERS)
  list(JOIN VOLLEY_SANITIZERS "," sanitizers)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${sanitizers}>
    $<$<COMPILE_LANGUAGE:C,CXX>:-fno-omit-frame-pointer>
    $<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=all>)
  add_link_options(-fsanitize=${sanitizers})
endif()

if(CMAKE_BUILD_TYPE AND
   NOT CMAKE_BUILD_TYPE MATCHES "^(Debug|Release|RelWithDebInfo|MinSizeRel)$")
  message(FATAL_ERROR "CMAKE_BUILD_TYPE is '${CMAKE_BUILD_TYPE}'; wanted is one of: Debug, "
    "Release, RelWithDebInfo, MinSizeRel.")
endif()
