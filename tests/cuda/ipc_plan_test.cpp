// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The plans of ipc without a GPU: every operation on all ranks at once, several operations without
// a pause between them, in random orders.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>

#include "base/error.h"
#include "tests/cuda/ipc_simulation.h"

namespace ddpbench::comm::testing {
namespace {

constexpr std::size_t kStageBytes = 256;  // small: many rounds
constexpr std::size_t kMessageStageBytes = 64;
constexpr std::size_t kCells = 2048;
constexpr int kIn = 0, kOut = 1;

// The ranks whose memory is readable.
enum class Exposed { none, all, even };

bool is_exposed(Exposed exposed, int rank) {
  return exposed == Exposed::all || (exposed == Exposed::even && rank % 2 == 0);
}

std::int32_t value(int rank, std::size_t index, int task) {
  return static_cast<std::int32_t>(index) * 16 + rank + task * 100'000;
}

std::vector<std::int32_t> filled(int rank, int task) {
  std::vector<std::int32_t> values(kCells);
  for (std::size_t i = 0; i < kCells; ++i) values[i] = value(rank, i, task);
  return values;
}

std::int32_t reduced(int size, std::size_t index, int task) {
  std::uint32_t sum = 0;  // wraps, as in the simulation
  for (int rank = 0; rank < size; ++rank) {
    sum = sum * 3 + static_cast<std::uint32_t>(value(rank, index, task));
  }
  return static_cast<std::int32_t>(sum);
}

std::int32_t summed(int size, std::size_t index, int task) {
  std::uint32_t sum = 0;
  for (int rank = 0; rank < size; ++rank) {
    sum += static_cast<std::uint32_t>(value(rank, index, task));
  }
  return static_cast<std::int32_t>(sum);
}

// The addresses only show whether operations are in place. They are never read.
std::byte* address(int memory, std::size_t cell) {
  return reinterpret_cast<std::byte*>(std::uintptr_t{0x10000}) +
         static_cast<std::size_t>(memory) * kCells * 4 + cell * 4;
}

Elements elements(int memory, std::size_t cell, std::size_t count) {
  return {address(memory, cell), count, DataType::int32};
}

class World {
 public:
  World(int size, Exposed exposed, unsigned seed,
        AllReduceAlgorithm all_reduce = AllReduceAlgorithm::direct)
      : size_(size),
        exposed_(exposed),
        all_reduce_(all_reduce),
        simulation_(size, kStageBytes, kMessageStageBytes, kCells, seed) {}

  // Adds one collective over `count` elements (of a part) on all ranks.
  void add(OperationKind kind, std::size_t count, int root, bool in_place) {
    ++task_;
    for (int rank = 0; rank < size_; ++rank) add_for(rank, kind, count, root, in_place);
  }

  std::string run() { return simulation_.run(); }

  // The plans that follow lack this flag, on both sides.
  void without(int set, int from, int to) { missing_ = {set, from, to}; }

 private:
  struct Layout {
    Operation operation;
    IpcSimulation::Task::Buffers buffers;
  };

  Layout layout(int rank, OperationKind kind, std::size_t count, int root, bool in_place) const {
    const auto n = static_cast<std::size_t>(size_), r = static_cast<std::size_t>(rank);
    Layout made{.operation = {kind, ReduceOp::sum, root, {}, {}}};
    const std::size_t own = in_place ? r * count : 0;
    const int other = in_place ? kIn : kOut;
    switch (kind) {
      case OperationKind::barrier:
        break;
      case OperationKind::all_gather:
      case OperationKind::gather:
        made.operation.in = elements(kIn, own, count);
        made.operation.out = elements(other, 0, n * count);
        made.buffers = {.in = kIn, .out = other, .in_offset = own, .out_offset = 0};
        break;
      case OperationKind::reduce_scatter:
      case OperationKind::scatter:
        made.operation.in = elements(kIn, 0, n * count);
        made.operation.out = elements(other, own, count);
        made.buffers = {.in = kIn, .out = other, .in_offset = 0, .out_offset = own};
        break;
      default:
        made.operation.in = elements(kIn, 3, count);
        made.operation.out = made.operation.in;
        made.buffers = {.in = kIn, .out = kIn, .in_offset = 3, .out_offset = 3};
    }
    return made;
  }

  void add_for(int rank, OperationKind kind, std::size_t count, int root, bool in_place) {
    const Layout own = layout(rank, kind, count, root, in_place);
    IpcPlan plan({.rank = rank,
                  .size = size_,
                  .round_bytes = kStageBytes,
                  .message_stage_bytes = kMessageStageBytes,
                  .all_reduce = all_reduce_});
    const bool exposed = is_exposed(exposed_, rank);
    plan.plan_collective(own.operation, {.in = exposed, .out = exposed});
    IpcSimulation::Task task;
    task.steps.assign(plan.steps().begin(), plan.steps().end());
    std::erase_if(task.steps, [&](const IpcStep& step) {
      const bool signals = step.action == IpcAction::signal;
      const std::array<int, 3> flag = {step.set, signals ? rank : step.peer,
                                       signals ? step.peer : rank};
      return (signals || step.action == IpcAction::await) && flag == missing_;
    });
    task.calls = {own.buffers};
    task.name = fmt::format("{} {} of {}, root {}", task_, to_string(kind), count, root);
    task.fill[kIn] = filled(rank, task_);
    task.expected[own.buffers.out] = expected(rank, kind, count, root, in_place);
    simulation_.add(rank, std::move(task));
  }

  std::map<std::size_t, std::int32_t> expected(int rank, OperationKind kind, std::size_t count,
                                               int root, bool in_place) const {
    std::map<std::size_t, std::int32_t> cells;
    const auto r = static_cast<std::size_t>(rank);
    const std::size_t own = in_place ? r * count : 0;
    for (std::size_t i = 0; i < count; ++i) {
      switch (kind) {
        case OperationKind::all_reduce:
          cells[3 + i] = all_reduce_ == AllReduceAlgorithm::ring ? summed(size_, 3 + i, task_)
                                                                 : reduced(size_, 3 + i, task_);
          break;
        case OperationKind::reduce:
          if (rank == root) cells[3 + i] = reduced(size_, 3 + i, task_);
          break;
        case OperationKind::broadcast:
          cells[3 + i] = value(root, 3 + i, task_);
          break;
        case OperationKind::reduce_scatter:
          cells[own + i] = reduced(size_, r * count + i, task_);
          break;
        case OperationKind::scatter:
          cells[own + i] = value(root, r * count + i, task_);
          break;
        case OperationKind::all_gather:
        case OperationKind::gather:
          for (int peer = 0; peer < size_; ++peer) {
            if (kind == OperationKind::gather && rank != root) break;
            const auto p = static_cast<std::size_t>(peer);
            cells[p * count + i] = value(peer, in_place ? p * count + i : i, task_);
          }
          break;
        default:
          break;
      }
    }
    if (kind == OperationKind::all_reduce || kind == OperationKind::broadcast) {
      cells[2] = value(rank, 2, task_);  // another rank's part
      cells[3 + count] = value(rank, 3 + count, task_);
    }
    return cells;
  }

  int size_;
  Exposed exposed_;
  AllReduceAlgorithm all_reduce_;
  IpcSimulation simulation_;
  int task_ = 0;
  std::array<int, 3> missing_ = {-1, -1, -1};
};

constexpr OperationKind kCollectives[] = {OperationKind::all_reduce, OperationKind::broadcast,
                                          OperationKind::all_gather, OperationKind::reduce_scatter,
                                          OperationKind::reduce,     OperationKind::scatter,
                                          OperationKind::gather,     OperationKind::barrier};

struct Setting {
  int size;
  Exposed exposed;
};

class IpcPlanTest : public ::testing::TestWithParam<Setting> {};

TEST_P(IpcPlanTest, EveryCollectiveIsRightAndOrdered) {
  const auto [size, exposed] = GetParam();
  const auto n = static_cast<std::size_t>(size);
  for (unsigned seed = 0; seed < 5; ++seed) {
    World world(size, exposed, seed);
    for (const OperationKind kind : kCollectives) {
      // The parts of 8 ranks fit into a memory: 8 * 211 < 2048.
      for (const std::size_t count :
           {std::size_t{0}, std::size_t{1}, n - 1, n, n + 1, std::size_t{211}}) {
        for (const int root : {0, size - 1}) {
          world.add(kind, count, root, false);
          world.add(kind, count, root, true);
        }
      }
    }
    EXPECT_EQ(world.run(), "") << "seed " << seed;
  }
}

TEST_P(IpcPlanTest, LongOperationsUseBothLanes) {
  const auto [size, exposed] = GetParam();
  for (unsigned seed = 0; seed < 5; ++seed) {
    World world(size, exposed, seed);
    for (int i = 0; i < 3; ++i) {
      world.add(OperationKind::all_reduce, 1999, 0, false);
      world.add(OperationKind::barrier, 0, 0, false);
      world.add(OperationKind::broadcast, 1777, size / 2, false);
      world.add(OperationKind::reduce, 977, size / 2, false);
    }
    EXPECT_EQ(world.run(), "") << "seed " << seed;
  }
}

// The ring runs between operations of other kinds, which use the same flags.
TEST_P(IpcPlanTest, TheRingIsRightAndOrdered) {
  const auto [size, exposed] = GetParam();
  const auto n = static_cast<std::size_t>(size);
  for (unsigned seed = 0; seed < 5; ++seed) {
    World world(size, exposed, seed, AllReduceAlgorithm::ring);
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, n - 1, n, n + 1, std::size_t{211}, std::size_t{1999}}) {
      world.add(OperationKind::all_reduce, count, 0, false);
      world.add(OperationKind::all_reduce, count, 0, false);
      world.add(OperationKind::broadcast, count, size / 2, false);
      world.add(OperationKind::all_reduce, count, 0, false);
      world.add(OperationKind::barrier, 0, 0, false);
    }
    EXPECT_EQ(world.run(), "") << "seed " << seed;
  }
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const int size : {1, 2, 3, 4, 5, 8}) {
    for (const Exposed exposed : {Exposed::none, Exposed::all, Exposed::even}) {
      all.push_back({size, exposed});
    }
  }
  return all;
}

std::string name_of(const ::testing::TestParamInfo<Setting>& tested) {
  const std::array<const char*, 3> names = {"Staged", "Registered", "Mixed"};
  return fmt::format("{}{}", tested.param.size,
                     names[static_cast<std::size_t>(tested.param.exposed)]);
}

INSTANTIATE_TEST_SUITE_P(Ranks, IpcPlanTest, ::testing::ValuesIn(settings()), name_of);

// Tests the simulation: it finds an error when one pair lacks its signal in any phase.
TEST(IpcSimulation, FindsEveryMissingSignal) {
  for (const Exposed exposed : {Exposed::none, Exposed::all}) {
    for (int phase = 0; phase < kIpcPhases; ++phase) {
      for (unsigned seed = 0; seed < 5; ++seed) {
        World world(3, exposed, seed);
        world.without(ipc_set(0, phase), 1, 2);
        world.add(OperationKind::all_reduce, 50, 0, false);
        world.add(OperationKind::all_reduce, 50, 0, false);
        EXPECT_NE(world.run(), "") << "phase " << phase << ", seed " << seed;
      }
    }
  }
}

TEST(IpcSimulation, FindsEveryMissingSignalOfTheRing) {
  for (const Exposed exposed : {Exposed::none, Exposed::all}) {
    for (const auto& [phase, from, to] : {std::array{0, 1, 2}, std::array{1, 2, 1}}) {
      for (unsigned seed = 0; seed < 5; ++seed) {
        World world(3, exposed, seed, AllReduceAlgorithm::ring);
        world.without(ipc_set(0, phase), from, to);
        world.add(OperationKind::all_reduce, 50, 0, false);
        world.add(OperationKind::all_reduce, 50, 0, false);
        EXPECT_NE(world.run(), "") << "phase " << phase << ", seed " << seed;
      }
    }
  }
}

// One message of a rank's group.
struct Message {
  OperationKind kind;
  int peer;
  std::size_t count;
};

void add_group(IpcSimulation& simulation, int rank, int size, bool exposed,
               const std::vector<Message>& group) {
  IpcPlan plan({.rank = rank,
                .size = size,
                .round_bytes = kStageBytes,
                .message_stage_bytes = kMessageStageBytes});
  IpcSimulation::Task task;
  task.messages = true;
  task.name = "messages";
  task.fill[kIn] = filled(rank, 0);
  std::vector<IpcMessage> messages;
  std::size_t place = 0;
  for (const Message& m : group) {
    const bool sends = m.kind == OperationKind::send;
    const Elements data = elements(sends ? kIn : kOut, place, m.count);
    messages.push_back(
        {{m.kind, ReduceOp::sum, m.peer, sends ? data : Elements{}, sends ? Elements{} : data},
         exposed});
    task.calls.push_back({.in = kIn, .out = kOut, .in_offset = place, .out_offset = place});
    place += 100;
  }
  plan.plan_messages(messages);
  task.steps.assign(plan.steps().begin(), plan.steps().end());
  simulation.add(rank, std::move(task));
}

TEST(IpcMessages, AGroupExchangesWithEverybodyItselfIncludedInAnyOrderOfIssue) {
  for (const int size : {1, 2, 3, 5}) {
    for (unsigned seed = 0; seed < 10; ++seed) {
      IpcSimulation simulation(size, kStageBytes, kMessageStageBytes, kCells, seed);
      for (int repeat = 0; repeat < 3; ++repeat) {
        for (int rank = 0; rank < size; ++rank) {
          std::vector<Message> group;
          for (int i = 0; i < size; ++i) {
            const int peer = (rank + i) % size;
            // One element, and counts whose rounds differ from pair to pair; two messages a pair.
            const auto count = [&](int from, int to) {
              return static_cast<std::size_t>((from * 7 + to * 13) % 90);
            };
            group.push_back({OperationKind::recv, peer, count(peer, rank)});
            group.push_back({OperationKind::send, peer, count(rank, peer)});
            group.push_back({OperationKind::send, peer, 5});
            group.push_back({OperationKind::recv, peer, 5});
          }
          add_group(simulation, rank, size, (rank + repeat) % 2 == 0, group);
        }
      }
      EXPECT_EQ(simulation.run(), "") << size << " ranks, seed " << seed;
    }
  }
}

TEST(IpcMessages, AGroupMeetsSingleCalls) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    IpcSimulation simulation(3, kStageBytes, kMessageStageBytes, kCells, seed);
    // A server and two workers: commands and data one by one, received and answered in groups.
    for (const int worker : {1, 2}) {
      add_group(simulation, worker, 3, true, {{OperationKind::send, 0, 1}});
      add_group(simulation, worker, 3, worker == 1, {{OperationKind::send, 0, 70}});
      add_group(simulation, worker, 3, true, {{OperationKind::recv, 0, 70}});
    }
    add_group(simulation, 0, 3, true, {{OperationKind::recv, 1, 1}, {OperationKind::recv, 2, 1}});
    add_group(simulation, 0, 3, true, {{OperationKind::recv, 1, 70}, {OperationKind::recv, 2, 70}});
    add_group(simulation, 0, 3, false,
              {{OperationKind::send, 1, 70}, {OperationKind::send, 2, 70}});
    EXPECT_EQ(simulation.run(), "") << "seed " << seed;
  }
}

TEST(IpcMessages, BringTheData) {
  IpcSimulation simulation(2, kStageBytes, kMessageStageBytes, kCells, 1);
  IpcSimulation::Task task[2];
  for (int rank = 0; rank < 2; ++rank) {
    IpcPlan plan({.rank = rank,
                  .size = 2,
                  .round_bytes = kStageBytes,
                  .message_stage_bytes = kMessageStageBytes});
    const Elements out = elements(kIn, 4, 333), in = elements(kOut, 9, 333);
    const std::vector<IpcMessage> messages = {
        {{OperationKind::send, ReduceOp::sum, 1 - rank, out, {}}, rank == 0},
        {{OperationKind::recv, ReduceOp::sum, 1 - rank, {}, in}, false}};
    plan.plan_messages(messages);
    task[rank].steps.assign(plan.steps().begin(), plan.steps().end());
    task[rank].calls = {{.in = kIn, .out = kOut, .in_offset = 4, .out_offset = 9},
                        {.in = kIn, .out = kOut, .in_offset = 4, .out_offset = 9}};
    task[rank].messages = true;
    task[rank].fill[kIn] = filled(rank, 7);
    for (std::size_t i = 0; i < 333; ++i) {
      task[rank].expected[kOut][9 + i] = value(1 - rank, 4 + i, 7);
    }
    simulation.add(rank, task[rank]);
  }
  EXPECT_EQ(simulation.run(), "");
}

TEST(IpcMessages, ToOneselfNeedAPartner) {
  IpcPlan plan({.rank = 0, .size = 2, .round_bytes = 64, .message_stage_bytes = 64});
  const Elements data = elements(kIn, 0, 4);
  const std::vector<IpcMessage> lonely = {
      {{OperationKind::send, ReduceOp::sum, 0, data, {}}, true}};
  EXPECT_THROW(plan.plan_messages(lonely), CommError);
}

}  // namespace
}  // namespace ddpbench::comm::testing
