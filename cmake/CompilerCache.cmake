# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Compiles through ccache where it is installed and works (its folder may not be writable). A user
# who sets CMAKE_CXX_COMPILER_LAUNCHER or CMAKE_CUDA_COMPILER_LAUNCHER, to nothing too, decides that.
find_program(DDPBENCH_CCACHE ccache)
mark_as_advanced(DDPBENCH_CCACHE)

set(ddpbench_ccache_works FALSE)
if(DDPBENCH_CCACHE)
  set(ddpbench_probe ${CMAKE_BINARY_DIR}/CMakeFiles/ccache_probe)
  file(WRITE ${ddpbench_probe}.cpp "int main() { return 0; }\n")
  execute_process(
    COMMAND ${DDPBENCH_CCACHE} ${CMAKE_CXX_COMPILER} -c ${ddpbench_probe}.cpp -o ${ddpbench_probe}.o
    RESULT_VARIABLE ddpbench_probe_result OUTPUT_QUIET ERROR_QUIET)
  if(ddpbench_probe_result EQUAL 0)
    set(ddpbench_ccache_works TRUE)
  endif()
endif()

foreach(ddpbench_language CXX CUDA)
  set(ddpbench_launcher CMAKE_${ddpbench_language}_COMPILER_LAUNCHER)
  if(ddpbench_ccache_works AND NOT DEFINED ${ddpbench_launcher} AND NOT DEFINED ENV{${ddpbench_launcher}})
    set(${ddpbench_launcher} ${DDPBENCH_CCACHE})
  endif()
endforeach()
