// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The bytes that reports give for the ipc backend are those that its plans move.
#include <gtest/gtest.h>

#include "parallel/comm/cuda/ipc/ipc_plan.h"
#include "reports/metrics/collective_metrics.h"

namespace ddpbench::comm {
namespace {

constexpr std::size_t kLaneBytes = 1 << 20;
constexpr std::size_t kMessageBytes = 1 << 18;

IpcShape shape(int rank, int size, AllReduceAlgorithm all_reduce = AllReduceAlgorithm::direct) {
  return {.rank = rank,
          .size = size,
          .round_bytes = kLaneBytes,
          .message_stage_bytes = kMessageBytes,
          .all_reduce = all_reduce};
}

// The bytes read and written. A reduction reads the parts of all ranks.
std::size_t moved(const IpcPlan& plan, int size) {
  std::size_t bytes = 0;
  for (const IpcStep& step : plan.steps()) {
    if (step.action == IpcAction::copy || step.action == IpcAction::pull) bytes += 2 * step.bytes;
    if (step.action == IpcAction::reduce) bytes += static_cast<std::size_t>(size + 1) * step.bytes;
    if (step.action == IpcAction::accumulate) bytes += 3 * step.bytes;
  }
  return bytes;
}

// The call of `ddpbench comm`: all in registered memory, parts from one buffer to another.
Operation operation_of(OperationKind kind, std::size_t whole, int size) {
  static std::byte in, out;
  const std::size_t part = whole / static_cast<std::size_t>(size);
  Operation operation{.kind = kind};
  const bool gathers = kind == OperationKind::all_gather || kind == OperationKind::gather;
  const bool scatters = kind == OperationKind::reduce_scatter || kind == OperationKind::scatter;
  operation.in = {&in, gathers ? part : whole, DataType::uint8};
  if (gathers) operation.out = {&out, whole, DataType::uint8};
  if (scatters) operation.out = {&out, part, DataType::uint8};
  return operation;
}

struct Named {
  const char* name;
  OperationKind kind;
};
constexpr Named kCollectives[] = {{"all_reduce", OperationKind::all_reduce},
                                  {"reduce", OperationKind::reduce},
                                  {"broadcast", OperationKind::broadcast},
                                  {"all_gather", OperationKind::all_gather},
                                  {"reduce_scatter", OperationKind::reduce_scatter},
                                  {"scatter", OperationKind::scatter},
                                  {"gather", OperationKind::gather},
                                  {"barrier", OperationKind::barrier}};

// Sizes that chunks divide evenly, below and above one round. Uneven chunks of a rooted operation
// would move some bytes more or fewer.
TEST(IpcBytes, AreThoseOfThePlans) {
  for (const int size : {2, 3, 4, 8}) {
    for (const std::size_t units : {std::size_t{1}, std::size_t{100}, std::size_t{30'000}}) {
      const std::size_t whole = units * 16 * 24;
      for (const Named& collective : kCollectives) {
        std::size_t bytes = 0;
        for (int rank = 0; rank < size; ++rank) {
          IpcPlan plan(shape(rank, size));
          plan.plan_collective(operation_of(collective.kind, whole, size), {.in = true});
          bytes += moved(plan, size);
        }
        const double told = report::ipc_bytes(collective.name, size, static_cast<double>(whole));
        // Each round of a rooted operation may have chunks that are one unit larger or smaller.
        const std::size_t lanes = whole / kLaneBytes;
        const double rounds = static_cast<double>(lanes) + 1;
        const double slack = collective.kind == OperationKind::reduce ? 2 * 16 * rounds : 0;
        EXPECT_NEAR(static_cast<double>(bytes), told, slack)
            << collective.name << " of " << whole << " bytes, " << size << " ranks";
      }
    }
  }
}

TEST(IpcBytes, OfTheRingAreThoseOfItsPlans) {
  for (const int size : {1, 2, 3, 4, 8}) {
    for (const std::size_t units : {std::size_t{1}, std::size_t{100}, std::size_t{30'000}}) {
      const std::size_t whole = units * 16 * 24;
      std::size_t bytes = 0;
      for (int rank = 0; rank < size; ++rank) {
        IpcPlan plan(shape(rank, size, AllReduceAlgorithm::ring));
        plan.plan_collective(operation_of(OperationKind::all_reduce, whole, size), {.in = true});
        bytes += moved(plan, size);
      }
      EXPECT_EQ(static_cast<double>(bytes),
                report::ipc_ring_all_reduce_bytes(size, static_cast<double>(whole)));
    }
  }
}

TEST(IpcBytes, OfAShiftAreThoseOfItsMessages) {
  constexpr std::size_t kWhole = 1'000'003;
  for (const int size : {2, 3}) {
    std::size_t bytes = 0;
    for (int rank = 0; rank < size; ++rank) {
      static std::byte in, out;
      const Operation send{.kind = OperationKind::send,
                           .root = (rank + 1) % size,
                           .in = {&in, kWhole, DataType::uint8}};
      const Operation recv{.kind = OperationKind::recv,
                           .root = (rank + size - 1) % size,
                           .out = {&out, kWhole, DataType::uint8}};
      IpcPlan plan(shape(rank, size));
      const IpcMessage messages[] = {{send, true}, {recv, true}};
      plan.plan_messages(messages);
      bytes += moved(plan, size);
    }
    EXPECT_EQ(static_cast<double>(bytes),
              report::ipc_bytes("send_recv", size, static_cast<double>(kWhole)));
  }
}

}  // namespace
}  // namespace ddpbench::comm
