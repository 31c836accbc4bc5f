// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/collective_rank.h"

#include <algorithm>
#include <cstring>

namespace ddpbench::bench {
namespace {

constexpr std::size_t kLeastBytes = 64;

}  // namespace

CollectiveRank::CollectiveRank(std::unique_ptr<comm::Communicator> world,
                               std::unique_ptr<Device> device, std::size_t bytes)
    : device_(std::move(device)), world_(std::move(world)) {
  device_->bind_calling_thread();
  const std::size_t room = std::max(bytes, kLeastBytes);
  in_ = device_->allocate(room, MemoryCategory::communication, Sharing::mappable);
  out_ = device_->allocate(room, MemoryCategory::communication, Sharing::mappable);
  world_->register_buffer(in_);
  world_->register_buffer(out_);
}

CollectiveMemory CollectiveRank::memory(std::size_t count, DataType type, comm::ReduceOp op) const {
  return {in_.view().data, out_.view().data, count, type, op};
}

void CollectiveRank::barrier() {
  world_->barrier({.after = nullptr, .start = comm::Start::deferred}).synchronize();
}

CollectiveRank::Span CollectiveRank::run(const CollectiveCase& collective,
                                         const CollectiveMemory& memory) {
  barrier();
  const double begin_s = device_->now_s();
  collective.run(*world_, memory);
  return {begin_s, device_->now_s()};
}

std::size_t CollectiveRank::verify(const CollectiveCase& collective,
                                   const CollectiveMemory& memory) {
  const TestPattern pattern(memory.type, collective.reduces ? memory.op : comm::ReduceOp::maximum,
                            world_->size());
  fill_input(memory, world_->rank(), pattern);
  run(collective, memory);
  const std::size_t wrong = count_wrong(collective, memory, world_->rank(), pattern);
  barrier();  // peers may still read what is cleared now
  const std::size_t bytes = memory.count * size_of(memory.type);
  std::memset(memory.in, 0, bytes);
  std::memset(memory.out, 0, bytes);
  return wrong;
}

}  // namespace ddpbench::bench
