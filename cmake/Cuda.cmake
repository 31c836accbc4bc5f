# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Finds the CUDA toolkit, cuDNN and NCCL for the CUDA module (DDPBENCH_ENABLE_CUDA=ON). cuDNN and
# NCCL may be below DDPBENCH_CUDA_ROOTS, which can name folders of Python packages
# (.../site-packages/nvidia/cudnn, .../site-packages/nvidia/nccl), in the toolkit, or in the
# system's paths. cuBLASLt and NVTX are looked for in the toolkit first.
set(DDPBENCH_CUDA_ROOTS "" CACHE STRING "Folders with include/ and lib/ of cuDNN and NCCL")
set(DDPBENCH_CUDA_ARCHITECTURES "" CACHE STRING
    "GPU architectures, as 80;90; empty: CMAKE_CUDA_ARCHITECTURES or CUDAARCHS where given, else all that the toolkit knows of 75 80 86 89 90 100 120")

include(CudaLibrary)

if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(DDPBENCH_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(NOT DDPBENCH_NVCC)
    ddpbench_cuda_missing("nvcc")
  endif()
  set(CMAKE_CUDA_COMPILER ${DDPBENCH_NVCC})
endif()
# CMake's own variables come first. The toolkit's architectures are known only after its compiler
# is. Until then take 90, which every supported toolkit has.
if(NOT CMAKE_CUDA_ARCHITECTURES AND DEFINED ENV{CUDAARCHS})
  set(CMAKE_CUDA_ARCHITECTURES $ENV{CUDAARCHS} CACHE STRING "GPU architectures")
endif()
set(ddpbench_cuda_wanted ${CMAKE_CUDA_ARCHITECTURES})
if(DDPBENCH_CUDA_ARCHITECTURES)
  set(ddpbench_cuda_wanted ${DDPBENCH_CUDA_ARCHITECTURES})
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90)
endif()
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.4)
  ddpbench_cuda_missing("a CUDA toolkit of version 12.4 or later (${CMAKE_CUDA_COMPILER_VERSION} is here)")
endif()
if(ddpbench_cuda_wanted)
  set(CMAKE_CUDA_ARCHITECTURES ${ddpbench_cuda_wanted})
else()
  set(CMAKE_CUDA_ARCHITECTURES 75 80 86 89 90)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
    list(APPEND CMAKE_CUDA_ARCHITECTURES 100 120)
  endif()
endif()
# nvcc has C++20 since 12.0, but CMake 3.25 does not know it.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(CUDAToolkit REQUIRED)

set(ddpbench_toolkit ${CUDAToolkit_TARGET_DIR} ${CUDAToolkit_LIBRARY_ROOT} ${CUDAToolkit_INCLUDE_DIRS}
                     ${CUDAToolkit_LIBRARY_DIR})

ddpbench_cuda_library(ddpbench_cudnn HEADER cudnn.h LIBRARY cudnn SONAME libcudnn.so.9
                      PLACES ${DDPBENCH_CUDA_ROOTS} ${ddpbench_toolkit})
ddpbench_cuda_library(ddpbench_nccl HEADER nccl.h LIBRARY nccl SONAME libnccl.so.2
                      PLACES ${DDPBENCH_CUDA_ROOTS} ${ddpbench_toolkit})
# Parts of the toolkit that are sometimes not installed with it.
ddpbench_cuda_library(ddpbench_cublaslt HEADER cublasLt.h LIBRARY cublasLt
                      SONAME libcublasLt.so.${CUDAToolkit_VERSION_MAJOR}
                      PLACES ${ddpbench_toolkit} ${DDPBENCH_CUDA_ROOTS})
ddpbench_cuda_library(ddpbench_nvtx HEADER nvtx3/nvToolsExt.h
                      PLACES ${ddpbench_toolkit} ${DDPBENCH_CUDA_ROOTS})
file(STRINGS ${ddpbench_nccl_INCLUDE}/nccl.h nccl_version REGEX "#define NCCL_VERSION_CODE")
string(REGEX MATCH "[0-9]+" nccl_version "${nccl_version}")
if(nccl_version LESS 21900)
  ddpbench_cuda_missing("NCCL 2.19 or later (NCCL_VERSION_CODE ${nccl_version} is here)")
endif()
message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}, cuDNN "
               "${ddpbench_cudnn_LIBRARY}, cuBLASLt ${ddpbench_cublaslt_LIBRARY}, NCCL "
               "${ddpbench_nccl_LIBRARY}")
