// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One rank of a test of the mpi backend, which mpirun starts: mpi_ranks MODE PORT. Prints what it
// finds as "rank R: WORDS" and fails when a check does.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "parallel/comm/hierarchical/hierarchical.h"
#include "parallel/comm/mpi/mpi.h"
#include "parallel/comm/mpi/mpi_communicator.h"
#include "parallel/comm/mpi/mpi_pieces.h"
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

void run_an_algorithm_of_ours(Communicator& c) {
  check_all_reduce_for_every_count(c, false);
  check_all_reduce_of_every_type(c, false);
  check_all_reduce_is_bit_identical(c, false);
  check(c.size() == 1 || c.all_reduces_run().size() == 1, "no algorithm is told");
}

void stay_away_as_the_last_rank(Communicator& c) {
  std::vector<float> data(50'000);
  if (c.rank() == c.size() - 1) return check_until_it_fails(c);
  c.all_reduce({data.data(), data.size()}, ReduceOp::sum, kDeferred)
      .synchronize(deadline_after(0.5));
}

void stop_as_rank_one(Communicator& c) {
  std::vector<float> data(50'000);
  c.barrier().synchronize();
  if (c.rank() == 1) {
    stop_this_process(1.5);  // the others give up meanwhile
    return check_until_it_fails(c);
  }
  c.all_reduce({data.data(), data.size()}, ReduceOp::sum, kDeferred)
      .synchronize(deadline_after(0.5));
}

void call_different_operations(Communicator& c) {
  std::vector<float> data(20'000);
  if (c.rank() == 0) {
    c.broadcast({data.data(), data.size()}, 1).synchronize(deadline_after(20));
  } else {
    c.broadcast({data.data(), data.size()}, 0).synchronize(deadline_after(20));
  }
  c.barrier().synchronize(deadline_after(20));
}

void send_a_message_of_another_size(Communicator& c) {
  std::vector<float> data(10);
  if (c.rank() == 0) c.send({data.data(), 10}, 1).synchronize();
  if (c.rank() == 1) c.recv({data.data(), 9}, 0).synchronize();
}

void abort_from_another_thread(Communicator& c) {
  float value = 0;
  std::vector<float> data(50'000);
  if (c.rank() == 0) {
    std::thread aborter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      c.abort("the user changed his mind");
    });
    aborter.join();
    c.recv({&value, 1}, 1, kDeferred).synchronize();
  }
  c.all_reduce({data.data(), data.size()}, ReduceOp::sum, kNow).synchronize();
}

void leave_as_rank_one(Communicator& c) {
  float value = 0;
  if (c.rank() == 0) c.recv({&value, 1}, 1, kNow).synchronize();
}

void die_as_rank_one(Communicator& c) {
  c.barrier().synchronize();
  if (c.rank() == 1) ::kill(::getpid(), SIGKILL);
  std::vector<float> data(50'000);
  c.all_reduce({data.data(), data.size()}, ReduceOp::sum).synchronize();
}

// As if the last rank had given up between the world and a communicator of a part of it.
void do_not_come_to_a_part(Communicator& c) {
  std::vector<int> members(static_cast<std::size_t>(c.size()));
  std::iota(members.begin(), members.end(), 0);
  if (c.rank() != c.size() - 1) make_communicator(members, 1, {deadline_after(0.5), {}});
}

const std::map<std::string_view, void (*)(Communicator&)> kModes = {
    {"checks", run_checks},
    {"passed", check_a_passed_deadline_leaves_a_message_under_way},
    {"ring", run_an_algorithm_of_ours},
    {"direct", run_an_algorithm_of_ours},
    {"late", stay_away_as_the_last_rank},
    {"stopped", stop_as_rank_one},
    {"roots", call_different_operations},
    {"message", send_a_message_of_another_size},
    {"abort", abort_from_another_thread},
    {"leave", leave_as_rank_one},
    {"killed", die_as_rank_one},
    {"absent", do_not_come_to_a_part},
};

// The modes beside these: calls in which ranks disagree, and those of ranks that pretend to be on
// hosts, of which each has a letter. "hosts-aab": the checks of engines over shm+mpi. "apart-aab":
// the same over mpi. "pieces-aab": prints find_places(); a capital letter is a host with a limit of
// its own.
constexpr std::string_view kHosts = "hosts-", kApart = "apart-", kPieces = "pieces-";

std::string host_of(std::string_view mode, int rank) {
  return std::string(1, mode.at(mode.find('-') + 1 + static_cast<std::size_t>(rank)));
}

void print_pieces(std::string_view mode, Communicator& c) {
  std::vector<std::string> words;
  const MpiPlaces places =
      find_places(MPI_COMM_WORLD, c.size(), host_of(mode, c.rank()), {deadline_after(20), {}});
  for (const std::size_t bytes : places.pieces) {
    words.push_back(bytes > std::size_t{1} << 40 ? "whole" : std::to_string(bytes));
  }
  fmt::print("{} sends {}\n", c.rank(), fmt::join(words, " "));
  fmt::print("{} is one of {} here\n", c.rank(), places.ranks_here);
}

void run_mode(std::string_view mode, Communicator& c) {
  for (const EngineCheck& calls : disagreements()) {
    if (calls.name == mode) return calls.run(c);
  }
  const bool is_hierarchical = mode.starts_with(kHosts);
  check(c.backend() == (is_hierarchical ? "shm+mpi" : "mpi"), "another backend");
  if (mode.starts_with(kPieces)) return print_pieces(mode, c);
  is_hierarchical || mode.starts_with(kApart) ? run_checks(c) : kModes.at(mode)(c);
}

std::unique_ptr<Communicator> make_world(std::string_view mode, Store& store, int rank, int size) {
  EngineOptions options;
  options.all_reduce = all_reduce_algorithm(mode);
  if (mode.starts_with(kPieces) && std::isupper(host_of(mode, rank)[0])) {
    ::setenv("OMPI_MCA_btl_tcp_eager_limit", "131072", 1);
  }
  if (mode.starts_with(kApart)) options.host = host_of(mode, rank);
  if (!mode.starts_with(kHosts)) return make_mpi(store, rank, size, options);
  return make_hierarchical("shm+mpi", store, rank, size, host_of(mode, rank), make_mpi, options);
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
  if (has_left_thread()) ::_exit(1);
  return error.empty() ? 0 : 1;
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
