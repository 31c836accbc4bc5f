# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Warnings and sanitizers, as one interface target that every room links.

add_library(ddpbench_flags INTERFACE)
# Designated initialisers name what differs and leave the rest to its defaults: GCC 12 warns of that.
set(ddpbench_warnings -Wall -Wextra -Wconversion -Wshadow -Wno-missing-field-initializers
                      $<$<BOOL:${DDPBENCH_WERROR}>:-Werror>)
target_compile_options(ddpbench_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:${ddpbench_warnings}>
  # nvcc's own warnings; those of the host's compiler would be of code that nvcc generates.
  $<$<COMPILE_LANGUAGE:CUDA>:$<$<BOOL:${DDPBENCH_WERROR}>:-Werror=all-warnings>>)
if(DDPBENCH_SANITIZE)
  target_compile_options(ddpbench_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${DDPBENCH_SANITIZE}>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fno-omit-frame-pointer>)
  # nvcc takes a comma for the end of one of the host compiler's options.
  string(REPLACE "," ";" ddpbench_sanitizers "${DDPBENCH_SANITIZE}")
  foreach(sanitizer ${ddpbench_sanitizers})
    target_compile_options(ddpbench_flags INTERFACE
      $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fsanitize=${sanitizer}>)
  endforeach()
  target_link_options(ddpbench_flags INTERFACE -fsanitize=${DDPBENCH_SANITIZE})
endif()
