# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Every dependency is a distribution package. A missing one, or one that is too old, stops the
# configuration with its name. The least versions are those of Debian 12, the oldest system that
# scripts/fresh_machine.sh tries; only of oneDNN it is known that less would not do.

set(ddpbench_how_to_get "scripts/install_packages.sh knows the packages of Debian 12 and 13, "
    "Ubuntu 24.04 and Fedora; elsewhere point CMAKE_PREFIX_PATH at it.")

# A version that the package does not tell is taken to be new enough.
function(ddpbench_require_version name version minimum package)
  if(version AND version VERSION_LESS minimum)
    message(FATAL_ERROR "${name} ${version} is too old: ddpbench needs ${minimum} or newer "
                        "(Debian's package: ${package}). " ${ddpbench_how_to_get})
  endif()
endfunction()

# ddpbench_find(<name in find_package> <least version> <Debian package> [arguments of find_package])
#
# The version is compared here: most packages' own rules refuse another major version.
macro(ddpbench_find package minimum debian_package)
  find_package(${package} QUIET ${ARGN})
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} was not found (Debian's package: ${debian_package}). "
                        ${ddpbench_how_to_get})
  endif()
  set(ddpbench_found_version)
  string(TOUPPER ${package} ddpbench_upper)
  foreach(ddpbench_variable ${package}_VERSION ${ddpbench_upper}_VERSION
          ${ddpbench_upper}_VERSION_STRING)
    if(NOT ddpbench_found_version)
      set(ddpbench_found_version "${${ddpbench_variable}}")
    endif()
  endforeach()
  ddpbench_require_version(${package} "${ddpbench_found_version}" ${minimum} "${debian_package}")
endmacro()

# std::source_location came with these.
set(ddpbench_least_GNU 12)
set(ddpbench_least_Clang 16)
if(ddpbench_least_${CMAKE_CXX_COMPILER_ID})
  ddpbench_require_version(${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}
                           ${ddpbench_least_${CMAKE_CXX_COMPILER_ID}} "g++")
endif()

ddpbench_find(Threads 0 "libc6-dev")
ddpbench_find(fmt 9.1 "libfmt-dev")
ddpbench_find(nlohmann_json 3.11 "nlohmann-json3-dev")
ddpbench_find(Boost 1.74 "libboost-dev" CONFIG)  # Boost.Math, headers alone
ddpbench_find(dnnl 2.6 "libdnnl-dev")  # oneDNN, 3.x included (kernels/ops/onednn/api.h)
ddpbench_find(OpenMP 0 "g++" COMPONENTS CXX)
ddpbench_find(ZLIB 1.2.11 "zlib1g-dev")
ddpbench_find(PNG 1.6 "libpng-dev")
ddpbench_find(OpenSSL 3.0 "libssl-dev")
ddpbench_find(CURL 7.88 "libcurl4-openssl-dev")
if(DDPBENCH_BUILD_TESTS)
  ddpbench_find(GTest 1.12 "libgtest-dev libgmock-dev")
  include(GoogleTest)
  find_path(DDPBENCH_VALIJSON_INCLUDE valijson/validator.hpp)  # tells no version
  if(NOT DDPBENCH_VALIJSON_INCLUDE)
    message(FATAL_ERROR "valijson was not found (Debian's package: libvalijson-dev). "
                        ${ddpbench_how_to_get})
  endif()
endif()
# From here on the variable is ON or OFF.
if(DDPBENCH_BUILD_MICRO STREQUAL "AUTO")
  find_package(benchmark QUIET)
  if(benchmark_FOUND)
    set(DDPBENCH_BUILD_MICRO ON)
  else()
    set(DDPBENCH_BUILD_MICRO OFF)
  endif()
  message(STATUS "Google Benchmark programs: ${DDPBENCH_BUILD_MICRO}")
elseif(DDPBENCH_BUILD_MICRO)
  ddpbench_find(benchmark 1.7 "libbenchmark-dev")
endif()

find_path(DDPBENCH_TURBOJPEG_INCLUDE turbojpeg.h)  # tells no version
find_library(DDPBENCH_TURBOJPEG_LIBRARY turbojpeg)
if(NOT DDPBENCH_TURBOJPEG_INCLUDE OR NOT DDPBENCH_TURBOJPEG_LIBRARY)
  message(FATAL_ERROR "libjpeg-turbo was not found (Debian's package: libturbojpeg0-dev). "
                      ${ddpbench_how_to_get})
endif()
add_library(ddpbench_turbojpeg INTERFACE)
target_include_directories(ddpbench_turbojpeg SYSTEM INTERFACE ${DDPBENCH_TURBOJPEG_INCLUDE})
target_link_libraries(ddpbench_turbojpeg INTERFACE ${DDPBENCH_TURBOJPEG_LIBRARY})

find_path(DDPBENCH_HWLOC_INCLUDE hwloc.h)
find_library(DDPBENCH_HWLOC_LIBRARY hwloc)
if(NOT DDPBENCH_HWLOC_INCLUDE OR NOT DDPBENCH_HWLOC_LIBRARY)
  message(FATAL_ERROR "hwloc was not found (Debian's package: libhwloc-dev). "
                      ${ddpbench_how_to_get})
endif()
set(ddpbench_hwloc_version)
find_file(DDPBENCH_HWLOC_CONFIG hwloc/autogen/config.h)  # Debian: in the architecture's folder
if(DDPBENCH_HWLOC_CONFIG)
  file(STRINGS ${DDPBENCH_HWLOC_CONFIG} ddpbench_line REGEX "define HWLOC_VERSION \"")
  if(ddpbench_line MATCHES "\"([^\"]+)\"")
    set(ddpbench_hwloc_version "${CMAKE_MATCH_1}")
  endif()
endif()
ddpbench_require_version(hwloc "${ddpbench_hwloc_version}" 2.9 "libhwloc-dev")
add_library(ddpbench_hwloc INTERFACE)
target_include_directories(ddpbench_hwloc SYSTEM INTERFACE ${DDPBENCH_HWLOC_INCLUDE})
target_link_libraries(ddpbench_hwloc INTERFACE ${DDPBENCH_HWLOC_LIBRARY})
