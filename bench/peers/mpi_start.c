/* SPDX-FileCopyrightText: The ddpbench authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * What starting and ending MPI costs, and nothing else.
 *   mpicc -O2 mpi_start.c -o mpi_start && mpirun -np 4 ./mpi_start
 */
#include <mpi.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
