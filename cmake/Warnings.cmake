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
  set(ddpbench_sanitize -fsanitize=${DDPBENCH_SANITIZE} -fno-omit-frame-pointer)
  string(REPLACE ";" " " ddpbench_sanitize_host "${ddpbench_sanitize}")
  target_compile_options(ddpbench_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:${ddpbench_sanitize}>
    $<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler "${ddpbench_sanitize_host}">)
  target_link_options(ddpbench_flags INTERFACE -fsanitize=${DDPBENCH_SANITIZE})
endif()
