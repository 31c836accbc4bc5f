# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# The program knows nothing of CUDA: it opens the module.
add_executable(gpu_ops_bench gpu_ops_bench.cpp gpu_bench.cpp gpu_cases.cpp gpu_flat_cases.cpp network_ops.cpp op_run.cpp)
target_link_libraries(gpu_ops_bench PRIVATE ddpbench::parallel benchmark::benchmark CLI11::CLI11
                                            ddpbench_flags)
add_dependencies(gpu_ops_bench ddpbench_cuda)
