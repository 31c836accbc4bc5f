/* SPDX-FileCopyrightText: The ddpbench authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * Times a blocking in-place MPI_Allreduce of floats (sum). A call takes as long as its slowest
 * rank. Rank 0 prints "bytes median_us min_us", over the calls.
 *   mpicc -O2 mpi_all_reduce.c -o mpi_all_reduce && mpirun -np 2 ./mpi_all_reduce 421642 200
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int count = argc > 1 ? atoi(argv[1]) : 421642;
  const int calls = argc > 2 ? atoi(argv[2]) : 200;
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  float* data = calloc((size_t)count, sizeof(float));
  double* times = malloc(sizeof(double) * (size_t)calls);
  const int warm_up = 10;
  for (int i = -warm_up; i < calls; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    const double own = MPI_Wtime() - begin;
    double slowest;
    MPI_Reduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (i >= 0) times[i] = slowest;
  }
  if (rank == 0) {
    qsort(times, (size_t)calls, sizeof(double), compare);
    printf("%zu %.2f %.2f\n", (size_t)count * sizeof(float), times[calls / 2] * 1e6, times[0] * 1e6);
  }
  free(data);
  free(times);
  MPI_Finalize();
  return 0;
}
