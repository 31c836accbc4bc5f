# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
add_executable(comm_bench comm_bench.cpp comm_world.cpp)
target_link_libraries(comm_bench PRIVATE ddpbench::bench benchmark::benchmark ddpbench_flags)
if(DDPBENCH_WITH_MPI)
  add_executable(mpi_bench mpi_bench.cpp)
  target_link_libraries(mpi_bench PRIVATE ddpbench::comm_mpi ddpbench_mpi_library fmt::fmt ddpbench_flags)
endif()
