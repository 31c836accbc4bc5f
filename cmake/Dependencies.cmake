# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Every dependency is a distribution package. A missing one stops the configuration with its name.

function(ddpbench_require package debian_package)
  find_package(${package} QUIET ${ARGN})
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} was not found. On Debian: apt-get install ${debian_package}; "
                        "elsewhere point CMAKE_PREFIX_PATH at it.")
  endif()
endfunction()

macro(ddpbench_find package debian_package)
  ddpbench_require(${package} ${debian_package} ${ARGN})
  find_package(${package} QUIET ${ARGN})
endmacro()

ddpbench_find(Threads "libc6-dev")
ddpbench_find(fmt "libfmt-dev")
ddpbench_find(nlohmann_json "nlohmann-json3-dev")
ddpbench_find(CLI11 "libcli11-dev")
ddpbench_find(simdjson "libsimdjson-dev")
ddpbench_find(dnnl "libdnnl-dev")
ddpbench_find(OpenMP "g++" COMPONENTS CXX)
ddpbench_find(ZLIB "zlib1g-dev")
ddpbench_find(OpenSSL "libssl-dev")
ddpbench_find(CURL "libcurl4-openssl-dev")
if(DDPBENCH_BUILD_TESTS)
  ddpbench_find(GTest "libgtest-dev libgmock-dev")
  include(GoogleTest)
  find_path(DDPBENCH_VALIJSON_INCLUDE valijson/validator.hpp)
  if(NOT DDPBENCH_VALIJSON_INCLUDE)
    message(FATAL_ERROR "valijson was not found. On Debian: apt-get install libvalijson-dev")
  endif()
endif()
if(DDPBENCH_BUILD_MICRO)
  ddpbench_find(benchmark "libbenchmark-dev")
endif()

find_path(DDPBENCH_HWLOC_INCLUDE hwloc.h)
find_library(DDPBENCH_HWLOC_LIBRARY hwloc)
if(NOT DDPBENCH_HWLOC_INCLUDE OR NOT DDPBENCH_HWLOC_LIBRARY)
  message(FATAL_ERROR "hwloc was not found. On Debian: apt-get install libhwloc-dev")
endif()
add_library(ddpbench_hwloc INTERFACE)
target_include_directories(ddpbench_hwloc SYSTEM INTERFACE ${DDPBENCH_HWLOC_INCLUDE})
target_link_libraries(ddpbench_hwloc INTERFACE ${DDPBENCH_HWLOC_LIBRARY})
