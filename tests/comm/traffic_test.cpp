// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the plan of a call says (add_shm_traffic) is what its ranks take from each other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "parallel/comm/shm/shm.h"
#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {
namespace {

constexpr std::array kCollectives = {OperationKind::all_reduce,     OperationKind::reduce,
                                     OperationKind::broadcast,      OperationKind::all_gather,
                                     OperationKind::reduce_scatter, OperationKind::scatter,
                                     OperationKind::gather,         OperationKind::barrier};
// Nothing, one element, chunks that are empty, a mailbox, more, more than staging memory.
constexpr std::array<std::size_t, 6> kCounts = {0, 1, 33, 4096, 4099, 300'007};

// One part a rank for collectives with parts, else one buffer.
Operation operation_of(OperationKind kind, std::size_t count, int size, int root, float* data) {
  const std::size_t whole = static_cast<std::size_t>(size) * count;
  Operation operation{kind, ReduceOp::sum, root, {}, {}};
  const Elements part{data + whole, count}, all{data, whole};
  switch (kind) {
    case OperationKind::all_gather:
    case OperationKind::gather:
      operation.in = part;
      operation.out = all;
      break;
    case OperationKind::reduce_scatter:
    case OperationKind::scatter:
      operation.in = all;
      operation.out = part;
      break;
    case OperationKind::barrier:
      break;
    default:
      operation.in = part;
  }
  return operation;
}

void check_link(const Traffic& counted, const Traffic& planned, const std::string& what) {
  check(counted == planned,
        fmt::format("{}: {} messages of {} bytes in place of {} of {}", what, counted.messages,
                    counted.bytes, planned.messages, planned.bytes));
}

// Runs the operation and compares what this rank took from each peer.
void check_traffic(Communicator& c, const Operation& operation, AllReduceAlgorithm wanted) {
  const std::vector<Traffic> before = c.taken();
  call(c, operation, kDeferred).synchronize();
  const std::vector<Traffic> after = c.taken();
  LinkTraffic planned(c.size());
  if (c.size() > 1) {
    add_shm_traffic({.kind = operation.kind,
                     .ranks = c.size(),
                     .root = operation.root,
                     .bytes = operation.part().bytes()},
                    wanted, planned);
  }
  for (int peer = 0; peer < c.size(); ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    check_link({after[p].messages - before[p].messages, after[p].bytes - before[p].bytes},
               planned.between(peer, c.rank()),
               fmt::format("{}, {} ranks, {}, from {} to {}", describe(operation), c.size(),
                           to_string(wanted), peer, c.rank()));
  }
}

void check_collectives(Communicator& c, AllReduceAlgorithm wanted, float* data, bool readable) {
  for (const OperationKind kind : kCollectives) {
    const bool reduces = kind == OperationKind::all_reduce || kind == OperationKind::reduce;
    if (reduces && !readable) continue;  // cut anew in each round
    for (const std::size_t count : kCounts) {
      check_traffic(c, operation_of(kind, count, c.size(), c.size() - 1, data), wanted);
    }
  }
}

std::size_t buffer_bytes(int size) {
  return (static_cast<std::size_t>(size) + 1) * kCounts.back() * sizeof(float);
}

TEST(ShmTraffic, OfThreadsIsAsPlanned) {
  for (const AllReduceAlgorithm wanted :
       {AllReduceAlgorithm::automatic, AllReduceAlgorithm::ring, AllReduceAlgorithm::direct}) {
    ShmOptions options = test_options();
    options.all_reduce = wanted;
    for (const int size : {1, 2, 3, 5}) {
      const auto collectives = [&](Communicator& c) {
        std::vector<float> data(buffer_bytes(size) / sizeof(float));
        check_collectives(c, wanted, data.data(), true);
      };
      run_ranks(RankKind::threads, size, collectives, options).expect_success();
    }
  }
}

TEST(ShmTraffic, OfProcessesIsAsPlannedInRegisteredMemoryAndInOther) {
  for (const int size : {2, 3}) {
    const auto collectives = [&](Communicator& c) {
      std::vector<float> own(buffer_bytes(size) / sizeof(float));
      check_collectives(c, AllReduceAlgorithm::automatic, own.data(), false);
      const Buffer buffer = mappable_buffer(buffer_bytes(size));
      c.register_buffer(buffer);
      check_collectives(c, AllReduceAlgorithm::automatic, buffer.view().as<float>().data(), true);
      c.deregister_buffer(buffer);
    };
    run_ranks(RankKind::processes, size, collectives).expect_success();
  }
}

TEST(ShmTraffic, OfMessagesIsThatOfTheReceiver) {
  const auto pass_on = [](Communicator& c) {
    std::vector<float> sent(100'003), received(100'003);
    for (const std::size_t count : {std::size_t{0}, sent.size()}) {
      const std::vector<Traffic> before = c.taken();
      const int right = (c.rank() + 1) % c.size(), left = (c.rank() + c.size() - 1) % c.size();
      c.group_start();
      Work send = c.send({sent.data(), count}, right, kDeferred);
      Work receive = c.recv({received.data(), count}, left, kDeferred);
      c.group_end();
      receive.synchronize();
      send.synchronize();
      const std::vector<Traffic> after = c.taken();
      LinkTraffic planned(c.size());
      add_shm_traffic({.kind = OperationKind::send,
                       .root = left,
                       .receiver = c.rank(),
                       .bytes = count * sizeof(float)},
                      AllReduceAlgorithm::automatic, planned);
      for (int peer = 0; peer < c.size(); ++peer) {
        const auto p = static_cast<std::size_t>(peer);
        check_link({after[p].messages - before[p].messages, after[p].bytes - before[p].bytes},
                   planned.between(peer, c.rank()), fmt::format("{} elements", count));
      }
    }
  };
  for (const RankKind kind : {RankKind::threads, RankKind::processes}) {
    run_ranks(kind, 3, pass_on).expect_success();
  }
}

}  // namespace
}  // namespace ddpbench::comm::testing
