# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# The search of Cuda.cmake for NVIDIA's libraries.

function(ddpbench_cuda_missing what)
  message(FATAL_ERROR
    "DDPBENCH_ENABLE_CUDA=ON, but ${what} was not found. The module needs the CUDA toolkit (12.4 to "
    "13), cuDNN 9 and NCCL 2.19 or later: https://developer.nvidia.com/cuda-downloads, or Python's "
    "packages with -DDDPBENCH_CUDA_ROOTS='DIR/nvidia/cudnn;DIR/nvidia/nccl'. Without a GPU in mind "
    "configure with -DDDPBENCH_ENABLE_CUDA=OFF.")
endfunction()

# ddpbench_cuda_library(<target> HEADER <header> [LIBRARY <library> SONAME <soname>] PLACES <folder>...)
#
# Adds the target <target> with header and library. The header is the first that CMake finds: below
# CMAKE_PREFIX_PATH, in the folders, or in the system. The library is the one beside the header, so
# that both have the same version; if there is none, it is searched for like the header.
function(ddpbench_cuda_library target)
  cmake_parse_arguments(WANTED "" "HEADER;LIBRARY;SONAME" "PLACES" ${ARGN})
  find_path(${target}_INCLUDE ${WANTED_HEADER} HINTS ${WANTED_PLACES} PATH_SUFFIXES include)
  if(NOT ${target}_INCLUDE)
    ddpbench_cuda_missing(${WANTED_HEADER})
  endif()
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${${target}_INCLUDE})
  if(WANTED_LIBRARY)
    # Python packages have no link without a version.
    set(names NAMES ${WANTED_LIBRARY} ${WANTED_SONAME} NAMES_PER_DIR)
    # Debian has a folder of the architecture below both include and lib.
    string(REGEX REPLACE "/include(/${CMAKE_LIBRARY_ARCHITECTURE})?/?$" "" beside "${${target}_INCLUDE}")
    find_library(${target}_LIBRARY ${names} NO_DEFAULT_PATH
                 PATHS "${beside}/" PATH_SUFFIXES lib/${CMAKE_LIBRARY_ARCHITECTURE} lib lib64)
    find_library(${target}_LIBRARY ${names} HINTS ${WANTED_PLACES} PATH_SUFFIXES lib lib64)
    if(NOT ${target}_LIBRARY)
      ddpbench_cuda_missing(${WANTED_SONAME})
    endif()
    target_link_libraries(${target} INTERFACE ${${target}_LIBRARY})
  endif()
endfunction()
