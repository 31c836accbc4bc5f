// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/micro/comm_world.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <exception>

#include "base/error.h"
#include "bench/comm/collective_rank.h"
#include "kernels/runtime/cpu_device.h"
#include "parallel/comm/shm/shm.h"

namespace ddpbench::bench {

namespace {

constexpr comm::CallOptions kBlocking{.after = nullptr, .start = comm::Start::deferred};
enum Command : std::int32_t { kEnd, kRun, kVerify };

std::unique_ptr<Device> device_of(int rank, const CpuPlacement& placement) {
  return make_cpu_device({rank, 1, placement.device_cores[static_cast<std::size_t>(rank)]});
}

std::unique_ptr<Device> led(std::unique_ptr<Device> device) {
  device->bind_calling_thread();
  return device;
}

}  // namespace

// What one rank has and does; the same on all ranks.
class CommWorld::Rank {
 public:
  Rank(const CollectiveCase& collective, std::unique_ptr<comm::Communicator> communicator,
       std::unique_ptr<Device> device, std::size_t count)
      : collective_(collective),
        rank_(std::move(communicator), led(std::move(device)), count * sizeof(float)),
        memory_(rank_.memory(count, DataType::fp32, comm::ReduceOp::sum)) {}

  // Rank 0 sends the next command and the others receive it.
  Command next(Command command) {
    auto word = static_cast<std::int32_t>(command);
    rank_.world().broadcast({&word, 1, DataType::int32}, 0, kBlocking).synchronize();
    return static_cast<Command>(word);
  }

  double run() {
    const CallSpan span = rank_.run(collective_, memory_);
    return combined(span.end_s - span.begin_s, comm::ReduceOp::maximum);
  }

  std::size_t count_wrong() {
    const std::size_t wrong = rank_.verify(collective_, memory_);
    return static_cast<std::size_t>(combined(static_cast<double>(wrong), comm::ReduceOp::sum));
  }

  void serve() {
    for (Command command = next(kEnd); command != kEnd; command = next(kEnd)) {
      command == kRun ? static_cast<void>(run()) : static_cast<void>(count_wrong());
    }
  }

 private:
  double combined(double value, comm::ReduceOp op) {
    rank_.world().all_reduce({&value, 1, DataType::fp64}, op, kBlocking).synchronize();
    return value;
  }

  const CollectiveCase& collective_;
  CollectiveRank rank_;
  const CollectiveMemory memory_;
};

CommWorld::CommWorld(RankKind kind, const CpuPlacement& placement, const CollectiveCase& collective,
                     std::size_t count)
    : collective_(collective), count_(count) {
  kind == RankKind::processes ? start_processes(placement) : start_threads(placement);
}

CommWorld::~CommWorld() {
  own_->next(kEnd);
  own_.reset();
  for (const int process : processes_) ::waitpid(process, nullptr, 0);
  for (std::thread& thread : threads_) thread.join();
}

double CommWorld::run() {
  own_->next(kRun);
  return own_->run();
}

std::size_t CommWorld::count_wrong() {
  own_->next(kVerify);
  return own_->count_wrong();
}

void CommWorld::start_processes(const CpuPlacement& placement) {
  const int size = static_cast<int>(placement.device_cores.size());
  comm::TcpStoreOptions options;
  options.secret = "comm_bench";
  std::array<int, 2> pipe_ends{};
  ensure(::pipe(pipe_ends.data()) == 0, "no pipe");
  const auto join = [&](int rank) {
    return comm::make_shm(*comm::connect_tcp_store(options), rank, size, {});
  };
  // The fork comes before the store's server makes a thread; its port follows through the pipe.
  for (int rank = 1; rank < size; ++rank) {
    const pid_t child = ::fork();
    if (child != 0) {
      processes_.push_back(child);
      continue;
    }
    int status = 1;
    try {
      if (::read(pipe_ends[0], &options.port, sizeof options.port) == sizeof options.port) {
        Rank(collective_, join(rank), device_of(rank, placement), count_).serve();
        status = 0;
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(status);
  }
  const auto server = comm::make_tcp_store_server(options);
  options.port = server->port();
  for (int rank = 1; rank < size; ++rank) {
    const bool told = ::write(pipe_ends[1], &options.port, sizeof options.port) > 0;
    ensure(told, "rank {} cannot be told the port", rank);
  }
  own_ = std::make_unique<Rank>(collective_, join(0), device_of(0, placement), count_);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

void CommWorld::start_threads(const CpuPlacement& placement) {
  auto ranks = comm::make_thread_shm(static_cast<int>(placement.device_cores.size()), {});
  for (int rank = 1; rank < static_cast<int>(ranks.size()); ++rank) {
    threads_.emplace_back([this, device = device_of(rank, placement),
                           own = std::move(ranks[static_cast<std::size_t>(rank)])]() mutable {
      Rank(collective_, std::move(own), std::move(device), count_).serve();
    });
  }
  own_ = std::make_unique<Rank>(collective_, std::move(ranks[0]), device_of(0, placement), count_);
}

}  // namespace ddpbench::bench
