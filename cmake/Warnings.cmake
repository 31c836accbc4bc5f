# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Warnings and sanitizers, as one interface target that every room links.

add_library(ddpbench_flags INTERFACE)
# Designated initialisers name what differs and leave the rest to its defaults: GCC 12 warns of that.
target_compile_options(ddpbench_flags INTERFACE -Wall -Wextra -Wconversion -Wshadow
                                                -Wno-missing-field-initializers
                                                $<$<BOOL:${DDPBENCH_WERROR}>:-Werror>)
if(DDPBENCH_SANITIZE)
  target_compile_options(ddpbench_flags INTERFACE -fsanitize=${DDPBENCH_SANITIZE}
                                                  -fno-omit-frame-pointer)
  target_link_options(ddpbench_flags INTERFACE -fsanitize=${DDPBENCH_SANITIZE})
endif()
