// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One rank of a test of the mpi backend, which mpirun starts: mpi_ranks MODE PORT. Prints what it
// finds as "rank R: WORDS" and fails when a check does.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "parallel/comm/comm_module.h"
#include "tests/comm/conformance.h"
#include "tests/comm/engine_checks.h"
#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {
namespace {

void run_checks(Communicator& c) {
  for (const EngineCheck& one : engine_checks()) {
    try {
      one.run(c);
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("{}: {}", one.name, error.what()));
    }
  }
}

void stay_away_as_the_last_rank(Communicator& c) {
  std::vector<float> data(50'000);
  if (c.rank() == c.size() - 1) return sleep_s(1);
  c.all_reduce({data.data(), data.size()}, ReduceOp::sum, kDeferred)
      .synchronize(deadline_after(0.5));
}

void stop_as_rank_one(Communicator& c) {
  std::vector<float> data(50'000);
  c.barrier().synchronize();
  if (c.rank() == 1) return stop_this_process(1.5);  // the others give up meanwhile
  c.all_reduce({data.data(), data.size()}, ReduceOp::sum, kDeferred)
      .synchronize(deadline_after(0.5));
}

void send_a_message_of_another_size(Communicator& c) {
  std::vector<float> data(10);
  if (c.rank() == 0) c.send({data.data(), 10}, 1).synchronize();
  if (c.rank() == 1) c.recv({data.data(), 9}, 0).synchronize();
}

void abort_from_another_thread(Communicator& c) {
  float value = 0;
  if (c.rank() == 0) {
    std::thread aborter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      c.abort("the user changed his mind");
    });
    aborter.join();
    c.recv({&value, 1}, 1, kDeferred).synchronize();
  }
}

void die_as_rank_one(Communicator& c) {
  c.barrier().synchronize();
  if (c.rank() == 1) ::kill(::getpid(), SIGKILL);
  std::vector<float> data(50'000);
  c.all_reduce({data.data(), data.size()}, ReduceOp::sum).synchronize();
}

const std::map<std::string_view, void (*)(Communicator&)> kModes = {
    {"checks", run_checks},
    {"passed", check_a_passed_deadline_leaves_a_message_under_way},
    {"late", stay_away_as_the_last_rank},
    {"stopped", stop_as_rank_one},
    {"message", send_a_message_of_another_size},
    {"abort", abort_from_another_thread},
    {"killed", die_as_rank_one},
};

// "hosts-aab": the checks of engines over shm+mpi between ranks that pretend to be on hosts, of
// which each has a letter.
constexpr std::string_view kHosts = "hosts-";

void run_mode(std::string_view mode, Communicator& c) {
  const bool is_hierarchical = mode.starts_with(kHosts);
  check(c.backend() == (is_hierarchical ? "shm+mpi" : "mpi"), "another backend");
  is_hierarchical ? run_checks(c) : kModes.at(mode)(c);
}

std::unique_ptr<Communicator> make_world(std::string_view mode, Store& store, int rank, int size) {
  const WorldOptions options;
  if (!mode.starts_with(kHosts)) return engine_module().make(store, rank, size, options);
  const std::string host(1, mode.at(kHosts.size() + static_cast<std::size_t>(rank)));
  return make_hierarchical(engine_module(), store, rank, size, host, options);
}

int run_rank(std::string_view mode, int port, int rank, int size) {
  TcpStoreOptions store_options;
  store_options.secret = "test";
  store_options.port = port;
  std::unique_ptr<TcpStoreServer> server;
  if (rank == 0) server = make_tcp_store_server(store_options);
  const auto store = connect_tcp_store(store_options);
  std::string error;
  try {
    const auto world = make_world(mode, *store, rank, size);
    run_mode(mode, *world);
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  // In one piece: ranks print side by side.
  const std::string line = fmt::format("rank {}: {}\n", rank, error.empty() ? "ok" : error);
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
  // mpirun ends the others when one ends, and rank 0 serves the store.
  try {
    const Deadline patience = deadline_after(30);
    for (auto ready = store->add("ready", 1); ready < size && !has_passed(patience);
         ready = store->add("ready", 0)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  } catch (const CommError&) {  // rank 0 has seen all
  }
  if (!error.empty()) ::_exit(1);  // a thread may still be in MPI
  return 0;
}

}  // namespace
}  // namespace ddpbench::comm::testing

int main(int argc, char** argv) {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* const size = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (argc != 3 || rank == nullptr || size == nullptr) {
    std::fputs("usage: mpirun -n N mpi_ranks MODE PORT\n", stderr);
    return 2;
  }
  return ddpbench::comm::testing::run_rank(argv[1], std::atoi(argv[2]), std::atoi(rank),
                                           std::atoi(size));
}
