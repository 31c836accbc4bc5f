# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Debian packages by cpack (scripts/package.sh): `ddpbench`, and `ddpbench-cuda` with the CUDA module
# where it is built, `ddpbench-gloo` and `ddpbench-mpi` likewise.

set(doc share/doc/ddpbench)
install(FILES README.md CHANGELOG.md DESTINATION ${doc} COMPONENT program)
install(FILES LICENSE DESTINATION ${doc} RENAME copyright COMPONENT program)
install(DIRECTORY docs DESTINATION ${doc} COMPONENT program)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ddpbench)
set(CPACK_PACKAGE_VENDOR "The ddpbench authors")
set(CPACK_PACKAGE_CONTACT "The ddpbench authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compares data-parallel training strategies")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_COMPONENT_PROGRAM_GROUP main)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_MAIN_PACKAGE_NAME ddpbench)
set(CPACK_DEBIAN_MAIN_PACKAGE_SHLIBDEPS ON)  # the versions of the system that it is built on
# It is opened when it is needed; Debian 13 calls it libcurl4t64.
set(CPACK_DEBIAN_MAIN_PACKAGE_DEPENDS "libcurl4 (>= 7.85) | libcurl4t64")
set(CPACK_DEBIAN_MAIN_PACKAGE_RECOMMENDS "ca-certificates, librsvg2-bin")
set(CPACK_DEBIAN_MAIN_DESCRIPTION "Trains one network with several data-parallel strategies, proves that they
compute the same thing, times them, and writes one report.")

if(DDPBENCH_ENABLE_CUDA)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
  set(CPACK_COMPONENT_CUDA_GROUP cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_NAME ddpbench-cuda)
  # NVIDIA's libraries come from its own repository, from a toolkit, or from Python packages, so
  # that no dependency can name them. Without them the program says what is missing.
  set(CPACK_DEBIAN_CUDA_PACKAGE_SHLIBDEPS OFF)
  set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "ddpbench (= ${PROJECT_VERSION})")
  set(CPACK_DEBIAN_CUDA_DESCRIPTION "The CUDA module: GPUs as devices of ddpbench. Needs NVIDIA's driver, cuDNN, cuBLAS and NCCL.")
endif()
# The engines in modules. Their libraries are Debian's, so the packages depend on them.
foreach(engine gloo mpi)
  string(TOUPPER ${engine} upper)
  if(NOT DDPBENCH_WITH_${upper})
    continue()
  endif()
  list(APPEND CPACK_COMPONENTS_ALL ${engine})
  set(CPACK_COMPONENT_${upper}_GROUP ${engine})
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ddpbench-${engine})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "ddpbench (= ${PROJECT_VERSION})")
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "The module for --backend=${engine} of ddpbench.")
endforeach()
set(CPACK_DEBIAN_MPI_PACKAGE_RECOMMENDS "openmpi-bin")  # mpirun, which starts the ranks
include(CPack)
