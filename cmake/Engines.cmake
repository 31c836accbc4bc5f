# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# The libraries of engines between CPU devices, each of which is optional. Where one is not here, the
# engine's module is not built, and the program says so when it is asked for.
set(DDPBENCH_ENABLE_GLOO AUTO CACHE STRING "Build the Gloo module: ON, OFF, or AUTO (where it is found)")
set(DDPBENCH_ENABLE_MPI AUTO CACHE STRING "Build the MPI module: ON, OFF, or AUTO (where it is found)")

# ddpbench_engine_absent(<option> <what> <Debian package>): stops where the option is ON.
function(ddpbench_engine_absent option what package)
  if(${option} STREQUAL "ON")
    message(FATAL_ERROR "${option}=ON, but ${what} was not found (Debian's package: ${package}).")
  endif()
  message(STATUS "${what}: not found (Debian's package: ${package}); its module is not built")
endfunction()

set(DDPBENCH_WITH_GLOO OFF)
if(DDPBENCH_ENABLE_GLOO)
  find_path(DDPBENCH_GLOO_INCLUDE gloo/rendezvous/context.h)
  find_library(DDPBENCH_GLOO_LIBRARY gloo)
  if(DDPBENCH_GLOO_INCLUDE AND DDPBENCH_GLOO_LIBRARY)
    set(DDPBENCH_WITH_GLOO ON)
    add_library(ddpbench_gloo_library INTERFACE)
    target_include_directories(ddpbench_gloo_library SYSTEM INTERFACE ${DDPBENCH_GLOO_INCLUDE})
    target_link_libraries(ddpbench_gloo_library INTERFACE ${DDPBENCH_GLOO_LIBRARY})
    message(STATUS "Gloo: ${DDPBENCH_GLOO_LIBRARY}")
  else()
    ddpbench_engine_absent(DDPBENCH_ENABLE_GLOO Gloo libgloo-dev)
  endif()
endif()

# Without the C++ functions of MPI 2, which MPI 3 removed.
set(DDPBENCH_WITH_MPI OFF)
if(DDPBENCH_ENABLE_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI 3.1 QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(DDPBENCH_WITH_MPI ON)
    add_library(ddpbench_mpi_library INTERFACE)
    target_include_directories(ddpbench_mpi_library SYSTEM INTERFACE ${MPI_CXX_INCLUDE_DIRS})
    target_link_libraries(ddpbench_mpi_library INTERFACE MPI::MPI_CXX)
    message(STATUS "MPI ${MPI_CXX_VERSION}: ${MPI_CXX_LIBRARIES}")
  else()
    ddpbench_engine_absent(DDPBENCH_ENABLE_MPI "MPI 3.1" "libopenmpi-dev openmpi-bin")
  endif()
endif()
