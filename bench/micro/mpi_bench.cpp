// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Times the mpi backend's all-reduce as bench/peers/mpi_all_reduce.c times MPI_Allreduce: blocking
// calls, in place, on fp32 sums. A call takes as long as its slowest rank. Rank 0 prints
// "bytes median_us min_us", over the calls.
//   mpirun -np 2 mpi_bench 421642 200 29400
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/clock.h"
#include "kernels/runtime/cpu_device.h"
#include "parallel/comm/mpi/mpi.h"
#include "parallel/comm/store/store.h"

namespace ddpbench::comm {
namespace {

constexpr int kWarmUp = 10;
constexpr CallOptions kBlocking{.after = nullptr, .start = Start::deferred};

// Of the slowest rank, in seconds.
double time_call(Communicator& world, const Elements& data) {
  world.barrier().synchronize();
  const double begin = steady_s();
  world.all_reduce(data, ReduceOp::sum, kBlocking).synchronize();
  double slowest = steady_s() - begin;
  world.all_reduce({&slowest, 1, DataType::fp64}, ReduceOp::maximum, kBlocking).synchronize();
  return slowest;
}

void time_calls(Communicator& world, std::size_t count, std::size_t calls) {
  const auto device = make_cpu_device({});
  const Buffer memory = device->allocate(count * sizeof(float), MemoryCategory::communication);
  world.register_buffer(memory);
  const Elements data{memory.data(), count, DataType::fp32};
  for (int i = 0; i < kWarmUp; ++i) time_call(world, data);
  std::vector<double> times(calls);
  for (double& time : times) time = time_call(world, data);
  world.deregister_buffer(memory);
  std::ranges::sort(times);
  if (world.rank() == 0) {
    fmt::print("{} {:.2f} {:.2f}\n", memory.bytes(), times[calls / 2] * 1e6, times[0] * 1e6);
  }
}

void run(std::size_t count, std::size_t calls, int port, int rank, int size) {
  TcpStoreOptions options;
  options.secret = "benchmark";
  options.port = port;
  std::unique_ptr<TcpStoreServer> server;
  if (rank == 0) server = make_tcp_store_server(options);
  const auto store = connect_tcp_store(options);
  const auto world = make_mpi(*store, rank, size, EngineOptions());
  time_calls(*world, count, calls);
  world->barrier().synchronize();
}

int number(const char* text) {
  const int value = text == nullptr ? 0 : std::atoi(text);
  if (value < 0) throw std::invalid_argument("a number below 0");
  return value;
}

}  // namespace
}  // namespace ddpbench::comm

int main(int argc, char** argv) {
  using ddpbench::comm::number;
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const int size = number(std::getenv("OMPI_COMM_WORLD_SIZE"));
  if (argc != 4 || rank == nullptr || number(argv[1]) == 0 || number(argv[2]) == 0) {
    std::fputs("usage: mpirun -np RANKS mpi_bench ELEMENTS CALLS PORT\n", stderr);
    return 2;
  }
  try {
    ddpbench::comm::run(static_cast<std::size_t>(number(argv[1])),
                        static_cast<std::size_t>(number(argv[2])), number(argv[3]), number(rank),
                        size);
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: {}\n", rank, error.what());
    return 1;
  }
  return 0;
}
