# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes <build>/generated/bench/host/version.h from bench/host/version.h.in, with the commit at each
# build. Targets that include it link ddpbench_version.
set(DDPBENCH_COMMIT "" CACHE STRING "Commit of these sources (40 digits), where they are a copy without git")
string(LENGTH "${DDPBENCH_COMMIT}" ddpbench_digits)
if(DDPBENCH_COMMIT AND NOT (ddpbench_digits EQUAL 40 AND DDPBENCH_COMMIT MATCHES "^[0-9a-f]+$"))
  message(FATAL_ERROR "DDPBENCH_COMMIT=${DDPBENCH_COMMIT} is no commit's 40 digits")
endif()
set(DDPBENCH_GENERATED_DIR ${CMAKE_BINARY_DIR}/generated)

find_program(DDPBENCH_GIT git)
if(DDPBENCH_GIT)
  set(ddpbench_git ${DDPBENCH_GIT})
endif()
if(DDPBENCH_ENABLE_CUDA)
  set(ddpbench_cuda true)
else()
  set(ddpbench_cuda false)
endif()
if(NOT ddpbench_hwloc_version)
  set(ddpbench_hwloc_version "unknown")
endif()

file(CONFIGURE OUTPUT ${DDPBENCH_GENERATED_DIR}/version_values.cmake @ONLY CONTENT [=[
set(VERSION "@PROJECT_VERSION@")
set(BUILD_TYPE "@CMAKE_BUILD_TYPE@")
set(SANITIZERS "@DDPBENCH_SANITIZE@")
set(CUDA_MODULE @ddpbench_cuda@)
set(SOURCE_DIR "@PROJECT_SOURCE_DIR@")
set(GIT "@ddpbench_git@")
set(GIVEN_COMMIT "@DDPBENCH_COMMIT@")
set(ZLIB "@ZLIB_VERSION_STRING@")
set(OPENSSL "@OPENSSL_VERSION@")
set(CURL "@CURL_VERSION_STRING@")
set(HWLOC "@ddpbench_hwloc_version@")
]=])

add_custom_target(ddpbench_write_version
  COMMAND ${CMAKE_COMMAND}
          -DVALUES=${DDPBENCH_GENERATED_DIR}/version_values.cmake
          -DTEMPLATE=${PROJECT_SOURCE_DIR}/bench/host/version.h.in
          -DOUTPUT=${DDPBENCH_GENERATED_DIR}/bench/host/version.h
          -P ${PROJECT_SOURCE_DIR}/cmake/WriteVersion.cmake
  BYPRODUCTS ${DDPBENCH_GENERATED_DIR}/bench/host/version.h
  COMMENT "Taking the version from the checkout"
  VERBATIM)

add_library(ddpbench_version INTERFACE)
target_include_directories(ddpbench_version INTERFACE ${DDPBENCH_GENERATED_DIR})
add_dependencies(ddpbench_version ddpbench_write_version)
