// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Simulates the plans of all ranks of an ipc communicator without CUDA, in a random order that
// lanes and flags permit, with a vector clock for each lane. It finds two unordered accesses to the
// same memory in any such order, a flag that is raised while it is up, and a deadlock.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "parallel/comm/cuda/ipc/ipc_plan.h"

namespace ddpbench::comm::testing {

class IpcSimulation {
 public:
  // Memory of one rank: cells of four bytes that remember their accesses.
  struct Cell {
    std::int32_t value = 0;
    int writer = -1;  // thread
    std::uint64_t written = 0;
    std::map<int, std::uint64_t> reads;  // [thread] -> its clock
  };
  using Memory = std::vector<Cell>;

  // An operation of one rank. `in` and `out` are numbers of the rank's memories. Offsets in them
  // are in cells.
  struct Task {
    std::vector<IpcStep> steps;
    struct Buffers {
      int in = 0, out = 0;
      std::size_t in_offset = 0, out_offset = 0;
    };
    std::vector<Buffers> calls;  // [IpcStep::call]
    // The user's writes before and reads after, in all memories, in cells.
    std::map<int, std::vector<std::int32_t>> fill;
    std::map<int, std::map<std::size_t, std::int32_t>> expected;
    bool messages = false;
    std::string name;
  };

  IpcSimulation(int size, std::size_t stage_bytes, std::size_t message_stage_bytes,
                std::size_t memory_cells, unsigned seed);

  void add(int rank, const Task& task) { tasks_[static_cast<std::size_t>(rank)].push_back(task); }
  // Runs all tasks. Returns the error; empty: none.
  std::string run();

  static constexpr int kMemories = 3;

 private:
  using Clock = std::vector<std::uint64_t>;
  struct Place {
    Memory* memory = nullptr;
    std::size_t cell = 0;
  };
  struct Flag {
    bool up = false;
    Clock clock;
    Place offer;
    Cell slot;  // where the offer is written
  };
  struct Rank {
    std::size_t task = 0;
    std::vector<std::size_t> at;  // [lane] position in the steps
    bool begun = false;
    std::vector<Memory> memories;
    std::vector<Memory> stages;          // [lane]
    std::vector<Memory> message_stages;  // [peer]
  };

  int thread(int rank, int lane) const { return rank * kIpcLanes + lane; }
  Flag& flag(int set, int from, int to);
  Place place(int rank, const Task& task, const IpcStep& step, const IpcPlace& where, bool target);
  void read(int by, Cell& cell);
  void write(int by, Cell& cell, std::int32_t value);
  bool before(int writer, std::uint64_t when, int by) const;
  void begin(int rank);
  void finish(int rank);
  bool advance(int rank, int lane);  // false: it has to wait
  bool step(int rank, int lane, const Task& task, const IpcStep& step);
  void reduce(int rank, const Task& task, const IpcStep& step);
  void accumulate(int rank, const Task& task, const IpcStep& step);
  void complain(const std::string& what);

  int size_;
  std::mt19937 random_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<Task>> tasks_;
  std::vector<Clock> clocks_;  // [thread]
  std::vector<Flag> flags_;
  int idle_ = 0;
  std::string where_, error_;
};

}  // namespace ddpbench::comm::testing
