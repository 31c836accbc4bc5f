// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/ipc_simulation.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddpbench::comm::testing {

namespace {

constexpr std::size_t kCellBytes = 4;

}  // namespace

IpcSimulation::IpcSimulation(int size, std::size_t stage_bytes, std::size_t message_stage_bytes,
                             std::size_t memory_cells, unsigned seed)
    : size_(size), random_(seed) {
  const auto n = static_cast<std::size_t>(size);
  Rank rank;
  rank.memories.assign(kMemories, Memory(memory_cells));
  rank.stages.assign(kIpcLanes, Memory(stage_bytes / kCellBytes));
  rank.message_stages.assign(n, Memory(message_stage_bytes / kCellBytes));
  ranks_.assign(n, rank);
  tasks_.resize(n);
  clocks_.assign(n * kIpcLanes, Clock(n * kIpcLanes, 1));
  flags_.resize(kIpcSets * n * n);
}

void IpcSimulation::complain(const std::string& what) {
  if (error_.empty()) error_ = where_ + ": " + what;
}

IpcSimulation::Flag& IpcSimulation::flag(int set, int from, int to) {
  return flags_[static_cast<std::size_t>((set * size_ + from) * size_ + to)];
}

IpcSimulation::Place IpcSimulation::place(int rank, const Task& task, const IpcStep& step,
                                          const IpcPlace& where, bool target) {
  Rank& own = ranks_[static_cast<std::size_t>(rank)];
  const std::size_t cell = where.offset / kCellBytes;
  const Task::Buffers& buffers = task.calls[target ? step.target_call : step.call];
  switch (where.region) {
    case IpcRegion::none:
      return {};
    case IpcRegion::in:
      return {&own.memories[static_cast<std::size_t>(buffers.in)], buffers.in_offset + cell};
    case IpcRegion::out:
      return {&own.memories[static_cast<std::size_t>(buffers.out)], buffers.out_offset + cell};
    case IpcRegion::stage: {
      return {task.messages ? &own.message_stages[static_cast<std::size_t>(step.peer)]
                            : &own.stages[static_cast<std::size_t>(step.lane)],
              cell};
    }
  }
  return {};
}

bool IpcSimulation::before(int writer, std::uint64_t when, int by) const {
  return when <= clocks_[static_cast<std::size_t>(by)][static_cast<std::size_t>(writer)];
}

void IpcSimulation::read(int by, Cell& cell) {
  if (cell.writer >= 0 && !before(cell.writer, cell.written, by)) {
    complain(fmt::format("lane {} reads what lane {} writes at the same time", by, cell.writer));
  }
  cell.reads[by] = clocks_[static_cast<std::size_t>(by)][static_cast<std::size_t>(by)];
}

void IpcSimulation::write(int by, Cell& cell, std::int32_t value) {
  if (cell.writer >= 0 && !before(cell.writer, cell.written, by)) {
    complain(fmt::format("lane {} writes what lane {} writes at the same time", by, cell.writer));
  }
  for (const auto& [reader, when] : cell.reads) {
    if (!before(reader, when, by)) {
      complain(fmt::format("lane {} writes what lane {} reads at the same time", by, reader));
    }
  }
  cell.reads.clear();
  cell.value = value;
  cell.writer = by;
  cell.written = clocks_[static_cast<std::size_t>(by)][static_cast<std::size_t>(by)];
}

namespace {

void merge(std::vector<std::uint64_t>& into, const std::vector<std::uint64_t>& from) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

}  // namespace

void IpcSimulation::begin(int rank) {
  Rank& own = ranks_[static_cast<std::size_t>(rank)];
  const Task& task = tasks_[static_cast<std::size_t>(rank)][own.task];
  const int lead = thread(rank, 0);
  where_ = fmt::format("rank {}, user before {}", rank, task.name);
  for (const auto& [memory, values] : task.fill) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      write(lead, own.memories[static_cast<std::size_t>(memory)][i], values[i]);
    }
  }
  auto& lead_clock = clocks_[static_cast<std::size_t>(lead)];
  for (int lane = 1; lane < kIpcLanes; ++lane) {
    merge(clocks_[static_cast<std::size_t>(thread(rank, lane))], lead_clock);
  }
  ++lead_clock[static_cast<std::size_t>(lead)];
  own.at.assign(kIpcLanes, 0);
  own.begun = true;
}

void IpcSimulation::finish(int rank) {
  Rank& own = ranks_[static_cast<std::size_t>(rank)];
  const Task& task = tasks_[static_cast<std::size_t>(rank)][own.task];
  const int lead = thread(rank, 0);
  for (int lane = 1; lane < kIpcLanes; ++lane) {
    auto& clock = clocks_[static_cast<std::size_t>(thread(rank, lane))];
    merge(clocks_[static_cast<std::size_t>(lead)], clock);
    ++clock[static_cast<std::size_t>(thread(rank, lane))];
  }
  where_ = fmt::format("rank {}, user after {}", rank, task.name);
  for (const auto& [memory, cells] : task.expected) {
    for (const auto& [i, value] : cells) {
      Cell& cell = own.memories[static_cast<std::size_t>(memory)][i];
      read(lead, cell);
      if (cell.value != value) {
        complain(fmt::format("memory {} [{}] is {}, not {}", memory, i, cell.value, value));
      }
    }
  }
  own.begun = false;
  ++own.task;
}

bool IpcSimulation::advance(int rank, int lane) {
  Rank& own = ranks_[static_cast<std::size_t>(rank)];
  const Task& task = tasks_[static_cast<std::size_t>(rank)][own.task];
  std::size_t& at = own.at[static_cast<std::size_t>(lane)];
  while (at < task.steps.size() && task.steps[at].lane != lane) ++at;
  if (at == task.steps.size()) return false;
  where_ = fmt::format("rank {}, {}, step {}", rank, task.name, at);
  if (!step(rank, lane, task, task.steps[at])) return false;
  ++at;
  return true;
}

bool IpcSimulation::step(int rank, int lane, const Task& task, const IpcStep& step) {
  const int by = thread(rank, lane);
  auto& clock = clocks_[static_cast<std::size_t>(by)];
  const std::size_t cells = step.bytes / kCellBytes;
  switch (step.action) {
    case IpcAction::signal: {
      Flag& raised = flag(step.set, rank, step.peer);
      if (raised.up) complain("raises a flag that is up");
      write(by, raised.slot, 0);
      raised.offer = place(rank, task, step, step.source, false);
      raised.up = true;
      raised.clock = clock;
      ++clock[static_cast<std::size_t>(by)];
      return true;
    }
    case IpcAction::await: {
      Flag& raised = flag(step.set, step.peer, rank);
      if (!raised.up) return false;
      raised.up = false;
      merge(clock, raised.clock);
      return true;
    }
    case IpcAction::copy:
    case IpcAction::pull: {
      Place from = place(rank, task, step, step.source, false);
      if (step.action == IpcAction::pull) {
        Flag& offered = flag(step.set, step.peer, rank);
        read(by, offered.slot);
        from = offered.offer;
      }
      const Place to = place(rank, task, step, step.target, true);
      if (from.memory == nullptr || to.memory == nullptr) {
        complain("copies from or to nowhere");
        return true;
      }
      for (std::size_t i = 0; i < cells; ++i) {
        Cell& source = from.memory->at(from.cell + i);
        read(by, source);
        write(by, to.memory->at(to.cell + i), source.value);
      }
      return true;
    }
    case IpcAction::reduce:
      reduce(rank, task, step);
      return true;
    case IpcAction::accumulate:
      accumulate(rank, task, step);
      return true;
  }
  return true;
}

void IpcSimulation::reduce(int rank, const Task& task, const IpcStep& step) {
  const int by = thread(rank, step.lane);
  const Place target = place(rank, task, step, step.target, true);
  for (std::size_t i = 0; i < step.bytes / kCellBytes; ++i) {
    std::uint32_t sum = 0;  // wraps
    for (int peer = 0; peer < size_; ++peer) {
      Place source = place(rank, task, step, step.source, false);
      if (peer != rank) {
        Flag& offered = flag(step.set, peer, rank);
        read(by, offered.slot);
        source = offered.offer;
      }
      if (source.memory == nullptr) return complain("reduces what was not offered");
      Cell& cell = source.memory->at(source.cell + i);
      read(by, cell);
      // Not commutative, so that the order of ranks shows.
      sum = sum * 3 + static_cast<std::uint32_t>(cell.value);
    }
    write(by, target.memory->at(target.cell + i), static_cast<std::int32_t>(sum));
  }
}

// Adds, so that the expected value does not depend on where chunks begin. The ring's construction
// fixes the order, and all ranks copy one result.
void IpcSimulation::accumulate(int rank, const Task& task, const IpcStep& step) {
  const int by = thread(rank, step.lane);
  Flag& offered = flag(step.set, step.peer, rank);
  read(by, offered.slot);
  const Place from = offered.offer;
  const Place own = place(rank, task, step, step.source, false);
  const Place target = place(rank, task, step, step.target, true);
  if (from.memory == nullptr) return complain("accumulates what was not offered");
  for (std::size_t i = 0; i < step.bytes / kCellBytes; ++i) {
    Cell& theirs = from.memory->at(from.cell + i);
    Cell& ours = own.memory->at(own.cell + i);
    read(by, theirs);
    read(by, ours);
    const std::uint32_t sum =
        static_cast<std::uint32_t>(theirs.value) + static_cast<std::uint32_t>(ours.value);
    write(by, target.memory->at(target.cell + i), static_cast<std::int32_t>(sum));
  }
}

std::string IpcSimulation::run() {
  std::vector<std::pair<int, int>> lanes;
  for (int rank = 0; rank < size_; ++rank) {
    for (int lane = 0; lane < kIpcLanes; ++lane) lanes.emplace_back(rank, lane);
  }
  bool busy = true;
  while (busy && error_.empty()) {
    bool moved = false;
    busy = false;
    std::shuffle(lanes.begin(), lanes.end(), random_);
    for (const auto& [rank, lane] : lanes) {
      Rank& own = ranks_[static_cast<std::size_t>(rank)];
      const auto& tasks = tasks_[static_cast<std::size_t>(rank)];
      if (own.task == tasks.size()) continue;
      busy = true;
      if (!own.begun) {
        begin(rank);
        moved = true;
      }
      // Some ranks run far ahead.
      for (auto steps = random_() % 8; steps > 0 && advance(rank, lane); --steps) moved = true;
      const auto& steps = tasks[own.task].steps;
      // A lane past its last step is noticed when it is to advance.
      const bool done = std::all_of(own.at.begin(), own.at.end(),
                                    [&](std::size_t at) { return at == steps.size(); });
      if (done) {
        finish(rank);
        moved = true;
      }
    }
    // One unlucky round may move no rank. A hundred such rounds mean that no rank can move.
    idle_ = moved ? 0 : idle_ + 1;
    if (idle_ > 100) {
      where_ = "all ranks";
      complain("wait for each other for ever");
    }
  }
  return error_;
}

}  // namespace ddpbench::comm::testing
