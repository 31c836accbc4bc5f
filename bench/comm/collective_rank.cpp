// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/collective_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <utility>

#include "base/text.h"
#include "parallel/comm/shm/collectives/reduce_kernels.h"

namespace ddpbench::bench {
namespace {

// Queueing takes the host some milliseconds at most.
constexpr double kMostBlocking_s = 5e-3;
// With the calls behind them, these are still less than the thousand or so that a CUDA stream
// holds.
constexpr int kMostCopies = 128;
constexpr double kMargin = 1.25;

constexpr std::size_t kLeastRoom = 64;
constexpr std::size_t kStagingBytes = 16 * kMiB;

constexpr int kWindows = 3;
constexpr double kWindow_s = 2e-3;
constexpr std::size_t kBytesPerLook = 256 << 10;  // between two looks at the clock
// Below this all data is in some cache, where non-temporal stores only lose.
constexpr std::size_t kLeastStreaming = kMiB;

// GB/s of `pass`, which reads and writes `bytes`; 0 where this rank only waits for the others.
template <typename Pass>
double best_window(CollectiveRank& rank, bool active, std::size_t bytes, Pass&& pass) {
  const std::size_t batch = std::max<std::size_t>(1, kBytesPerLook / bytes);
  double best = 0;
  if (active) pass();  // touches the pages
  for (int window = 0; window < kWindows; ++window) {
    rank.barrier();
    if (!active) continue;
    const double begin_s = rank.device().now_s();
    double end_s = begin_s;
    std::size_t passes = 0;
    while (end_s - begin_s < kWindow_s) {
      for (std::size_t i = 0; i < batch; ++i) pass();
      passes += batch;
      end_s = rank.device().now_s();
    }
    best = std::max(best, static_cast<double>(passes * bytes) / (end_s - begin_s));
  }
  return best / 1e9;
}

}  // namespace

CallQueue::CallQueue(Device& device, comm::Communicator& world)
    : device_(device),
      world_(world),
      copies_first_(device.kind() != DeviceKind::cpu),
      copies_begin_(device.make_event()),
      copies_end_(device.make_event()),
      stream_(device.make_stream()),
      calls_(copies_first_ ? kDepth : 1) {
  if (copies_first_) allocate(device_, planned_buffers(from_, to_));
  for (Call& call : calls_) {
    call.begin = device_.make_event();
    call.end = device_.make_event();
  }
  begin_row();
}

std::array<PlannedBuffer, 2> CallQueue::planned_buffers(Buffer& from, Buffer& to) {
  return {{{&from, MemoryCategory::workspace, kCopiedBytes},
           {&to, MemoryCategory::workspace, kCopiedBytes}}};
}

void CallQueue::queue_copies() {
  stream_->record(*copies_begin_);
  for (int i = 0; i < copies_; ++i) device_.copy(*stream_, to_.view(), from_.view());
  stream_->record(*copies_end_);
}

void CallQueue::begin_row() {
  depth_ = calls_.size();
  calibrate();
}

void CallQueue::add(const CollectiveCase& collective, const CollectiveMemory& memory) {
  if (added_ == 0 && copies_first_) queue_copies();
  Call& call = calls_.at(added_);
  const comm::CallOptions options{.after = stream_.get(), .start = comm::Start::deferred};
  world_.barrier(options).wait(*stream_);
  stream_->record(*call.begin);
  call.issued = collective.issue(world_, memory, options);
  call.issued.wait(*stream_);
  stream_->record(*call.end);
  call.queued_s = device_.now_s();
  ++added_;
}

std::vector<CallSpan> CallQueue::finish() {
  std::vector<CallSpan> spans;
  // One by one, oldest first: each has a deadline of its own.
  for (std::size_t i = 0; i < added_; ++i) calls_[i].issued.synchronize();
  stream_->synchronize();
  for (std::size_t i = 0; i < added_; ++i) {
    Call& call = calls_[i];
    call.issued = {};
    const double begin_s = call.begin->time_s();
    spans.push_back({begin_s, call.end->time_s(), copies_first_ && call.queued_s > begin_s});
  }
  if (copies_first_ && added_ > 0) adjust(spans);
  added_ = 0;
  constexpr double kInterval_s = 5;
  if (device_.now_s() - calibrated_s_ > kInterval_s) calibrate();
  return spans;
}

// Adds as many copies as would have covered the longest delay. Where no more are allowed, queues
// fewer calls at a time, which the host does faster. A single call cannot be shortened: it may be
// the first of its kind, for which libraries were loaded.
void CallQueue::adjust(const std::vector<CallSpan>& spans) {
  double delay_s = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].late) delay_s = std::max(delay_s, calls_[i].queued_s - spans[i].begin_s);
  }
  const double copy_s = (copies_end_->time_s() - copies_begin_->time_s()) / copies_;
  if (!(copy_s > 0)) return;
  const int most =
      std::max(1, static_cast<int>(std::min<double>(kMostBlocking_s / copy_s, kMostCopies)));
  const bool could_grow = copies_ < most;
  const double wanted = copies_ + std::ceil(kMargin * delay_s / copy_s);
  copies_ = static_cast<int>(std::min<double>(wanted, most));
  if (could_grow || !(delay_s > 0) || added_ < 2) return;
  depth_ = std::max<std::size_t>(1, std::min(depth_, added_) / 2);
}

// No work of this rank is in flight. Threads that share one GPU may have work in flight there. It
// ends without this rank, because their hosts queue nothing that waits for work not yet queued.
void CallQueue::calibrate() {
  device_.calibrate_clock();
  calibrated_s_ = device_.now_s();
}

CollectiveRank::CollectiveRank(std::unique_ptr<comm::Communicator> world,
                               std::unique_ptr<Device> device, std::size_t bytes, int sharers)
    : device_(std::move(device)), world_(std::move(world)) {
  const std::size_t room = std::max(bytes, kLeastRoom);
  try {
    // No rank allocates between the barriers: the others' devices and communicators are made.
    barrier();
    check_memory(room, sharers);
    barrier();
    make_buffers(room);
  } catch (const std::exception& error) {
    world_->abort(error.what());  // spares the others the wait for a deadline
    throw;
  }
}

void CollectiveRank::check_memory(std::size_t room, int sharers) {
  MemoryNeeds needs(*device_);
  for (int rank = 0; rank < sharers; ++rank) {
    Buffer from, to;
    needs.add(planned_buffers(room));
    if (device_->kind() != DeviceKind::cpu) needs.add(CallQueue::planned_buffers(from, to));
  }
  check_claims({{needs.claim(
      fmt::format("ddpbench comm, with {} of {} bytes to send and as many to receive,",
                  counted(sharers, "rank"), room),
      sharers == 1 ? "use smaller --sizes" : "use smaller --sizes, or fewer --ranks")}});
}

std::array<PlannedBuffer, 2> CollectiveRank::planned_buffers(std::size_t room) {
  return {{{&in_, MemoryCategory::communication, room, Sharing::mappable},
           {&out_, MemoryCategory::communication, room, Sharing::mappable}}};
}

void CollectiveRank::make_buffers(std::size_t room) {
  allocate(*device_, planned_buffers(room));
  copies_ = device_->make_stream();
  if (!device_->is_host_accessible()) {
    staging_ = device_->allocate_staging(std::min(room, kStagingBytes));
  }
  world_->register_buffer(in_);
  world_->register_buffer(out_);
  calls_ = std::make_unique<CallQueue>(*device_, *world_);
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

BandwidthSample measure_bandwidth(CollectiveRank& rank, std::size_t working_set, bool all_cores,
                                  DataType type) {
  const bool active = all_cores || rank.world().rank() == 0;
  const std::size_t count = std::max<std::size_t>(1, working_set / 2 / size_of(type));
  const std::size_t half = count * size_of(type);
  const CollectiveMemory memory = rank.memory(count, type, comm::ReduceOp::maximum);
  const std::array<const std::byte*, 2> sources = {memory.out, memory.in};
  std::memset(memory.in, 0, half);
  std::memset(memory.out, 0, half);
  BandwidthSample sample{working_set, all_cores};
  for (const comm::WriteMode mode : {comm::WriteMode::cached, comm::WriteMode::non_temporal}) {
    if (mode == comm::WriteMode::non_temporal && working_set < kLeastStreaming) continue;
    sample.copy_gb_per_s = std::max(sample.copy_gb_per_s, best_window(rank, active, 2 * half, [&] {
                                      comm::copy_bytes(memory.out, memory.in, half, mode);
                                    }));
    sample.reduce_gb_per_s =
        std::max(sample.reduce_gb_per_s, best_window(rank, active, 3 * half, [&] {
                   comm::reduce_sources(memory.out, sources, count, {.type = type}, mode);
                 }));
  }
  return sample;
}

}  // namespace ddpbench::bench
