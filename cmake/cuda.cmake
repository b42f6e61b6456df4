# SPDX-License-Identifier: BSD-3-Clause
#
# Decides whether the Hopper kernels are built: sets VOLLEY_WITH_CUDA, and when it is TRUE the CUDA
# language and CUDAToolkit are there. Without a toolkit the build goes on and says what it left out,
# unless VOLLEY_CUDA=ON asked for the kernels.
set(VOLLEY_WITH_CUDA FALSE)
if(VOLLEY_CUDA STREQUAL "OFF")
  message(STATUS "Hopper kernels: left out (VOLLEY_CUDA=OFF)")
  return()
endif()

# CMake itself looks at CMAKE_CUDA_COMPILER, CUDACXX and PATH. Two more places are worth a look: the
# usual one, and where scripts/setup.sh --cuda puts the toolkit.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(VOLLEY_NVCC nvcc
    PATHS /usr/local/cuda/bin ${PROJECT_SOURCE_DIR}/build/cuda-toolkit/bin)
  mark_as_advanced(VOLLEY_NVCC)
  if(VOLLEY_NVCC)
    set(CMAKE_CUDA_COMPILER ${VOLLEY_NVCC})
  endif()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a)  # wgmma and setmaxnreg exist in the "a" target alone
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(VOLLEY_CUDA STREQUAL "ON")
    message(FATAL_ERROR "VOLLEY_CUDA is ON, but no CUDA compiler was found; wanted is nvcc 12.4 or "
      "newer on PATH or in CMAKE_CUDA_COMPILER. scripts/setup.sh --cuda installs one.")
  endif()
  message(STATUS "Hopper kernels: left out (no CUDA compiler; scripts/setup.sh --cuda gets one)")
  return()
endif()

if(NOT "90a" IN_LIST CMAKE_CUDA_ARCHITECTURES AND NOT "90a-real" IN_LIST CMAKE_CUDA_ARCHITECTURES)
  message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES is '${CMAKE_CUDA_ARCHITECTURES}'; wanted is a list "
    "with 90a: the Hopper kernels use instructions that no other target has.")
endif()
# Asked before CMake tries the compiler out: an old one may fail at that, with a long story.
execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --version OUTPUT_VARIABLE nvcc_says ERROR_QUIET)
if(nvcc_says MATCHES "release [0-9.]+, V([0-9.]+)" AND CMAKE_MATCH_1 VERSION_LESS 12.4)
  message(FATAL_ERROR "The CUDA compiler ${CMAKE_CUDA_COMPILER} has version ${CMAKE_MATCH_1}; "
    "wanted is 12.4 or newer, or VOLLEY_CUDA=OFF.")
endif()
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.26 does not know nvcc's
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
find_package(CUDAToolkit REQUIRED)
set(VOLLEY_WITH_CUDA TRUE)
message(STATUS "Hopper kernels: built with CUDA ${CMAKE_CUDA_COMPILER_VERSION} "
  "for ${CMAKE_CUDA_ARCHITECTURES}")
