# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
add_executable(step_bench step_bench.cpp)
target_compile_definitions(step_bench PRIVATE DDPBENCH_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
target_link_libraries(step_bench PRIVATE ddpbench::nn benchmark::benchmark ddpbench_flags)
