# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Warnings and sanitizers: one interface target that every room links.

add_library(ddpbench_flags INTERFACE)
# Designated initialisers leave members at their defaults on purpose, but GCC 12 warns of that.
set(ddpbench_warnings -Wall -Wextra -Wconversion -Wshadow -Wno-missing-field-initializers
                      $<$<BOOL:${DDPBENCH_WERROR}>:-Werror>)
target_compile_options(ddpbench_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:${ddpbench_warnings}>
  # Only nvcc's own warnings: the host compiler would warn of code that nvcc generates.
  $<$<COMPILE_LANGUAGE:CUDA>:$<$<BOOL:${DDPBENCH_WERROR}>:-Werror=all-warnings>>)
if(DDPBENCH_SANITIZE)
  target_compile_options(ddpbench_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${DDPBENCH_SANITIZE}>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fno-omit-frame-pointer>)
  # nvcc splits the host compiler's options at commas.
  string(REPLACE "," ";" ddpbench_sanitizers "${DDPBENCH_SANITIZE}")
  foreach(sanitizer ${ddpbench_sanitizers})
    target_compile_options(ddpbench_flags INTERFACE
      $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fsanitize=${sanitizer}>)
  endforeach()
  target_link_options(ddpbench_flags INTERFACE -fsanitize=${DDPBENCH_SANITIZE})
endif()
