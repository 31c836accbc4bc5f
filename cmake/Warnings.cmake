# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Warnings and sanitizers, as one interface target that every room links.

add_library(ddpbench_flags INTERFACE)
target_compile_options(ddpbench_flags INTERFACE -Wall -Wextra -Wconversion -Wshadow
                                                $<$<BOOL:${DDPBENCH_WERROR}>:-Werror>)
if(DDPBENCH_SANITIZE)
  target_compile_options(ddpbench_flags INTERFACE -fsanitize=${DDPBENCH_SANITIZE}
                                                  -fno-omit-frame-pointer)
  target_link_options(ddpbench_flags INTERFACE -fsanitize=${DDPBENCH_SANITIZE})
endif()
