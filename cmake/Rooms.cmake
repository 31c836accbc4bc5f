# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0

# ddpbench_add_room(<name> SOURCES <files...> [PUBLIC <libs...>] [PRIVATE <libs...>])
#
# One static library a room, with the alias ddpbench::<name>. Includes are written from the
# repository's root ("kernels/runtime/device.h").
function(ddpbench_add_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(ddpbench_${name} STATIC ${ROOM_SOURCES})
  add_library(ddpbench::${name} ALIAS ddpbench_${name})
  target_include_directories(ddpbench_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(ddpbench_${name} PUBLIC fmt::fmt ${ROOM_PUBLIC}
                                         PRIVATE ddpbench_flags ${ROOM_PRIVATE})
endfunction()

# ddpbench_add_cuda_room(<name> ...): as ddpbench_add_room, a room's part of the CUDA module.
function(ddpbench_add_cuda_room name)
  ddpbench_add_room(${name} ${ARGN})
  target_link_libraries(ddpbench_${name} PUBLIC CUDA::cudart_static)
endfunction()

# What test programs share: warnings as everywhere, but less optimized, since nothing is measured
# there and a third of a build's time goes into them.
function(ddpbench_set_test_flags name)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE GTest::gmock ddpbench_flags)
  target_compile_options(${name} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
endfunction()

# ddpbench_add_test_support(<name> SOURCES <files...> LIBRARIES <libs...>)
#
# Sources of several test programs, compiled once: name it among their LIBRARIES.
function(ddpbench_add_test_support name)
  cmake_parse_arguments(SUPPORT "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(${name} OBJECT ${SUPPORT_SOURCES})
  target_link_libraries(${name} PUBLIC ${SUPPORT_LIBRARIES})
  ddpbench_set_test_flags(${name})
endfunction()

# ddpbench_add_tests(<name> SOURCES <files...> LIBRARIES <libs...> [LABELS <labels...>]
#                    [TIMEOUT <seconds>] [SERIAL] [PREFIX <text>])
#
# One test program; every GoogleTest case becomes a ctest test with these labels. SERIAL: its cases
# need both cores or real time, nothing else runs beside them. PREFIX: before the names, where two
# programs have the same cases.
function(ddpbench_add_tests name)
  cmake_parse_arguments(TEST "SERIAL" "TIMEOUT;PREFIX" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  if(NOT TEST_LABELS)
    set(TEST_LABELS unit)
  endif()
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_LIBRARIES} GTest::gtest_main)
  ddpbench_set_test_flags(${name})
  set(properties LABELS "${TEST_LABELS}" TIMEOUT ${TEST_TIMEOUT})
  if(TEST_SERIAL)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  # Without NO_PRETTY_VALUES a case's name would have the bytes of its parameter in it, pointers too.
  gtest_discover_tests(${name} TEST_PREFIX "${TEST_PREFIX}" NO_PRETTY_VALUES
                       PROPERTIES ${properties} DISCOVERY_TIMEOUT 60)
endfunction()
