# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
add_executable(comm_bench comm_bench.cpp comm_world.cpp)
target_link_libraries(comm_bench PRIVATE ddpbench::bench benchmark::benchmark ddpbench_flags)
