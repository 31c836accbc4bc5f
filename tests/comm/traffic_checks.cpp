// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/traffic_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {
namespace {

constexpr std::array kCollectives = {OperationKind::all_reduce,     OperationKind::reduce,
                                     OperationKind::broadcast,      OperationKind::all_gather,
                                     OperationKind::reduce_scatter, OperationKind::scatter,
                                     OperationKind::gather,         OperationKind::barrier};
// Nothing, one element, chunks that are empty, a mailbox, more, more than staging memory.
constexpr std::array<std::size_t, 6> kCounts = {0, 1, 33, 4096, 4099, 300'007};
// Of whole buffers, too: chunks of several segments also between eight ranks.
constexpr std::size_t kManyElements = 2'200'003;

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

void check_traffic(Communicator& c, const Operation& operation, AllReduceAlgorithm wanted,
                   const AddTraffic& add_traffic) {
  const std::vector<Traffic> before = c.taken();
  call(c, operation, kDeferred).synchronize();
  const std::vector<Traffic> after = c.taken();
  LinkTraffic planned(c.size());
  if (c.size() > 1) {
    add_traffic({.kind = operation.kind,
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

}  // namespace

std::size_t traffic_bytes(int size) {
  const std::size_t parts = (static_cast<std::size_t>(size) + 1) * kCounts.back();
  return std::max(parts, kManyElements) * sizeof(float);
}

void check_collective_traffic(Communicator& c, AllReduceAlgorithm wanted, float* data,
                              bool readable, const AddTraffic& add_traffic) {
  for (const OperationKind kind : kCollectives) {
    const bool reduces = kind == OperationKind::all_reduce || kind == OperationKind::reduce;
    if (reduces && !readable) continue;  // cut anew in each round
    for (const std::size_t count : kCounts) {
      check_traffic(c, operation_of(kind, count, c.size(), c.size() - 1, data), wanted,
                    add_traffic);
    }
    if (!reduces && kind != OperationKind::broadcast) continue;
    const Operation whole{kind, ReduceOp::sum, c.size() - 1, {data, kManyElements}, {}};
    check_traffic(c, whole, wanted, add_traffic);
  }
}

void check_message_traffic(Communicator& c, const AddTraffic& add_traffic) {
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
    add_traffic({.kind = OperationKind::send,
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
}

}  // namespace ddpbench::comm::testing
