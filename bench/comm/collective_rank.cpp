// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/collective_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "base/math.h"
#include "base/text.h"
#include "bench/rank/rank_devices.h"

namespace ddpbench::bench {
namespace {

constexpr std::size_t kLeastBytes = 64;
constexpr std::size_t kStagingBytes = 16 * kMiB;

// Copies of this size last long enough on every known GPU.
constexpr std::size_t kMostBlockingBytes = 512 * kMiB;
// The part of the memory left by all other buffers that copies may take.
constexpr std::size_t kBlockingPart = 4;

}  // namespace

CollectiveRank::CollectiveRank(std::unique_ptr<comm::Communicator> world,
                               std::unique_ptr<Device> device, std::size_t bytes, int sharers)
    : device_(std::move(device)), world_(std::move(world)) {
  const std::size_t room = std::max(bytes, kLeastBytes);
  try {
    // No rank allocates between the barriers: the others' devices and communicators are made.
    barrier();
    const std::size_t most_blocking_bytes = check_memory(room, sharers);
    barrier();
    make_buffers(room, most_blocking_bytes);
  } catch (const std::exception& error) {
    world_->abort(error.what());  // spares the others the wait for a deadline
    throw;
  }
}

std::size_t CollectiveRank::check_memory(std::size_t room, int sharers) {
  const bool inline_device = runs_inline(*device_);
  MemoryNeeds needs(*device_);
  for (int rank = 0; rank < sharers; ++rank) {
    needs.add(planned_buffers(room));
    if (inline_device) continue;
    Buffer from, to;
    needs.add(BlockingCopies::planned_buffers(from, to, BlockingCopies::kLeastBytes));
  }
  needs.check(fmt::format("ddpbench comm, with {} of {} bytes to send and as many to receive,",
                          counted(sharers, "rank"), room),
              sharers == 1 ? "use smaller --sizes" : "use smaller --sizes, or fewer --ranks");
  if (inline_device) return 0;
  const std::optional<std::size_t> free_bytes = device_->free_bytes();
  if (!free_bytes) return BlockingCopies::kLeastBytes;
  const std::size_t buffers = 2 * static_cast<std::size_t>(sharers);
  const std::size_t spare = *free_bytes - std::min(*free_bytes, needs.added_bytes());
  return std::clamp(spare / kBlockingPart / buffers, BlockingCopies::kLeastBytes,
                    kMostBlockingBytes);
}

std::array<PlannedBuffer, 2> CollectiveRank::planned_buffers(std::size_t room) {
  return {{{&in_, MemoryCategory::communication, room, Sharing::mappable},
           {&out_, MemoryCategory::communication, room, Sharing::mappable}}};
}

void CollectiveRank::make_buffers(std::size_t room, std::size_t most_blocking_bytes) {
  allocate(*device_, planned_buffers(room));
  copies_ = device_->make_stream();
  if (!device_->is_host_accessible()) {
    staging_ = device_->allocate_staging(std::min(room, kStagingBytes));
  }
  world_->register_buffer(in_);
  world_->register_buffer(out_);
  auto blocking = most_blocking_bytes > 0
                      ? std::make_unique<BlockingCopies>(*device_, most_blocking_bytes)
                      : nullptr;
  calls_ = std::make_unique<CallQueue>(*device_, *world_, std::move(blocking));
}

CollectiveMemory CollectiveRank::memory(std::size_t count, DataType type, comm::ReduceOp op) const {
  return {in_.view().data, out_.view().data, count, type, op};
}

void CollectiveRank::barrier() {
  world_->barrier({.after = nullptr, .start = comm::Start::deferred}).synchronize();
}

CallSpan CollectiveRank::run(const CollectiveCase& collective, const CollectiveMemory& memory) {
  calls_->add(collective, memory);
  return calls_->finish().front();
}

template <typename Use>
void CollectiveRank::visit(std::byte* data, std::size_t count, DataType type, Access access,
                           Use&& use) {
  if (!staging_) return use(comm::Elements{data, count, type}, std::size_t{0});
  const std::size_t most = staging_.bytes() / size_of(type);
  for (std::size_t first = 0; first < count; first += most) {
    const comm::Elements piece{staging_.data(), std::min(most, count - first), type};
    const BufferView host{staging_.data(), piece.bytes()};
    const BufferView device{data + first * size_of(type), piece.bytes()};
    if (access == Access::read) {
      device_->copy(*copies_, host, device);
      copies_->synchronize();
    }
    use(piece, first);
    if (access == Access::write) {
      device_->copy(*copies_, device, host);
      copies_->synchronize();
    }
  }
}

std::size_t CollectiveRank::verify(const CollectiveCase& collective,
                                   const CollectiveMemory& memory) {
  const TestPattern pattern(memory.type, collective.reduces ? memory.op : comm::ReduceOp::maximum,
                            world_->size());
  const Place place{world_->rank(), world_->size(), memory.count};
  visit(memory.in, memory.count, memory.type, Access::write,
        [&](const comm::Elements& piece, std::size_t first) {
          fill_input(piece, first, place.rank, pattern);
        });
  run(collective, memory);
  std::size_t wrong = 0;
  visit(collective.in_place ? memory.in : memory.out, collective.results(place), memory.type,
        Access::read, [&](const comm::Elements& piece, std::size_t first) {
          wrong += count_wrong(collective, piece, first, place, pattern);
        });
  barrier();  // peers may still read what is cleared next
  for (std::byte* const data : {memory.in, memory.out}) {
    visit(data, memory.count, memory.type, Access::write,
          [](const comm::Elements& piece, std::size_t) {
            std::memset(piece.data, 0, piece.bytes());
          });
  }
  return wrong;
}

}  // namespace ddpbench::bench
