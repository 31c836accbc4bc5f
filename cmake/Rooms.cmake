# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0

# Compiles the sources of a target sixteen at a time. The compiler then reads and instantiates headers
# once for all sixteen, which takes about half the time of a whole build (eight: a third more). The
# sources that read JSON's header, the slowest, come first, so that few batches have it. A source with
# compile options of its own stays separate.
function(ddpbench_compile_together name)
  get_target_property(sources ${name} SOURCES)
  set(with_json)
  set(without_json)
  foreach(source IN LISTS sources)
    get_filename_component(file "${source}" ABSOLUTE)
    set(found)
    if(EXISTS "${file}")
      file(STRINGS "${file}" found REGEX "^#include [<\"](nlohmann/json.hpp|base/json_members.h)"
           LIMIT_COUNT 1)
    endif()
    if(found)
      list(APPEND with_json ${source})
    else()
      list(APPEND without_json ${source})
    endif()
  endforeach()
  set_target_properties(${name} PROPERTIES SOURCES "${with_json};${without_json}")
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${DDPBENCH_UNITY} UNITY_BUILD_BATCH_SIZE 16)
endfunction()

# ddpbench_add_room(<name> SOURCES <files...> [PUBLIC <libs...>] [PRIVATE <libs...>]
#                   [COLD|WARM])
#
# Adds a room: a static library with the alias ddpbench::<name>. Includes are written from the
# repository's root ("kernels/runtime/device.h"). COLD: a training step spends next to no time in the
# room's own code (that of bench marks phases and hands over batches), so a release optimizes it less
# (-Og), which takes a third off its build. WARM: nor there, but the start of a run does (start values),
# so that it is a little more (-O1).
function(ddpbench_add_room name)
  cmake_parse_arguments(ROOM "COLD;WARM" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(ddpbench_${name} STATIC ${ROOM_SOURCES})
  add_library(ddpbench::${name} ALIAS ddpbench_${name})
  target_include_directories(ddpbench_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(ddpbench_${name} PUBLIC fmt::fmt ${ROOM_PUBLIC}
                                         PRIVATE ddpbench_flags ${ROOM_PRIVATE})
  ddpbench_compile_together(ddpbench_${name})
  if(ROOM_COLD)
    ddpbench_optimize_less(ddpbench_${name} -Og)
  elseif(ROOM_WARM)
    ddpbench_optimize_less(ddpbench_${name} -O1)
  endif()
endfunction()

# For targets whose speed does not affect any measurement.
function(ddpbench_optimize_less name level)
  target_compile_options(${name} PRIVATE
    $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:${level}>)
endfunction()

# ddpbench_add_cuda_room(<name> ...): the same for a room's part of the CUDA module.
function(ddpbench_add_cuda_room name)
  ddpbench_add_room(${name} ${ARGN})
  target_link_libraries(ddpbench_${name} PUBLIC CUDA::cudart_static)
endfunction()

# ddpbench_add_module(<name> COMPONENT <component> SOURCES <files...> LIBRARIES <libs...>)
#
# Adds libddpbench_<name>.so, which programs open at run time. It is one library with one exported
# function. It has its own copy of the rooms that it uses, so that programs that may open it need to
# export nothing.
function(ddpbench_add_module name)
  cmake_parse_arguments(MODULE "" "COMPONENT" "SOURCES;LIBRARIES" ${ARGN})
  add_library(ddpbench_${name} MODULE ${MODULE_SOURCES})
  target_include_directories(ddpbench_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(ddpbench_${name} PRIVATE ${MODULE_LIBRARIES} ddpbench_flags)
  # as-needed: libraries that only the rooms' CPU parts use are not mapped a second time.
  target_link_options(ddpbench_${name} PRIVATE -Wl,--as-needed -Wl,--exclude-libs,ALL
                                               -Wl,--no-undefined)
  # Programs look for it in ../lib/ddpbench relative to their own folder, built or installed.
  set_target_properties(ddpbench_${name} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/ddpbench
    INSTALL_RPATH_USE_LINK_PATH ON)  # libraries stay where they were found
  install(TARGETS ddpbench_${name} LIBRARY DESTINATION lib/ddpbench COMPONENT ${MODULE_COMPONENT})
  set_property(GLOBAL APPEND PROPERTY DDPBENCH_MODULES ddpbench_${name})
endfunction()

# The flags of test programs: the usual warnings, and the least optimization (-Og compiles as fast as
# -O0 to a tenth, -O1 takes 40 % longer). With -O0 the linker would take the tests' unoptimized copies
# of templates (strings, JSON) for what they test, too: the tests of reports took 59 s in place of 20.
function(ddpbench_set_test_flags name)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE GTest::gmock ddpbench_flags)
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Og>)
endfunction()

# ddpbench_add_test_support(<name> SOURCES <files...> LIBRARIES <libs...>)
#
# Compiles sources of several test programs once. Name it among their LIBRARIES.
function(ddpbench_add_test_support name)
  cmake_parse_arguments(SUPPORT "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(${name} OBJECT ${SUPPORT_SOURCES})
  ddpbench_compile_together(${name})
  target_link_libraries(${name} PUBLIC ${SUPPORT_LIBRARIES})
  ddpbench_set_test_flags(${name})
endfunction()

# ddpbench_add_tests(<name> SOURCES <files...> LIBRARIES <libs...> [LABELS <labels...>]
#                    [TIMEOUT <seconds>] [SHARDS <number>] [EACH])
#
# Adds one test program. It is one ctest test, or SHARDS ctest tests that divide its GoogleTest cases:
# a process for each of thousands of short cases costs more than they do. EACH: every case is a ctest
# test of its own, for cases that start processes or skip where the real data are missing. The label
# unit-quick is for `ctest -L quick`, which takes at most a minute and needs no engine. A program with
# the label gpu is skipped when all of its cases are.
function(ddpbench_add_tests name)
  cmake_parse_arguments(TEST "EACH" "TIMEOUT;SHARDS" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  if(NOT TEST_LABELS)
    set(TEST_LABELS unit)
  endif()
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  if(DDPBENCH_SANITIZE)
    math(EXPR TEST_TIMEOUT "5 * ${TEST_TIMEOUT}")  # sanitized programs take that many times longer
  endif()
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_LIBRARIES} GTest::gtest_main)
  ddpbench_set_test_flags(${name})
  ddpbench_compile_together(${name})
  set(properties LABELS "${TEST_LABELS}" TIMEOUT ${TEST_TIMEOUT})
  if(TEST_EACH)
    # Without NO_PRETTY_VALUES names of cases would contain the bytes of their parameters.
    gtest_discover_tests(${name} NO_PRETTY_VALUES PROPERTIES ${properties} DISCOVERY_TIMEOUT 60)
    return()
  endif()
  set(arguments --gtest_brief=1)
  if("gpu" IN_LIST TEST_LABELS)
    set(arguments)
    list(APPEND properties SKIP_REGULAR_EXPRESSION
      "  PASSED  . 0 tests.\n. +SKIPPED [^\n]*\n(. +SKIPPED [^\n]*\n)+$")
  endif()
  if(NOT TEST_SHARDS)
    set(TEST_SHARDS 1)
  endif()
  foreach(shard RANGE 1 ${TEST_SHARDS})
    set(test ${name})
    if(TEST_SHARDS GREATER 1)
      set(test ${name}.${shard})
    endif()
    math(EXPR index "${shard} - 1")
    add_test(NAME ${test} COMMAND ${name} ${arguments})
    set_tests_properties(${test} PROPERTIES ${properties}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${TEST_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()
