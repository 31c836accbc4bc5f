# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
add_executable(ops_bench ops_bench.cpp network_ops.cpp op_run.cpp)
target_link_libraries(ops_bench PRIVATE ddpbench::ops benchmark::benchmark ddpbench_flags)

add_executable(conv_bench conv_bench.cpp op_run.cpp)
target_link_libraries(conv_bench PRIVATE ddpbench::ops DNNL::dnnl OpenMP::OpenMP_CXX benchmark::benchmark
                                         ddpbench_flags)
