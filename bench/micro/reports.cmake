# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
add_executable(large_report large_report.cpp)
target_link_libraries(large_report PRIVATE ddpbench::reports ddpbench_flags)
