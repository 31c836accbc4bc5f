# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# bench/version.h.in -> <build>/generated/bench/version.h, with the commit taken at every build.
set(DDPBENCH_GENERATED_DIR ${CMAKE_BINARY_DIR}/generated)
