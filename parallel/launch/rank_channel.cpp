// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/launch/rank_channel.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "parallel/launch/rank_slot.h"

namespace ddpbench::launch {
namespace {

// The slot has one writer, so no read-modify-write instruction is needed.
template <typename T>
void advance(std::atomic<T>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

template <typename Record>
void append_record(std::atomic<std::uint64_t>& count, std::uint64_t capacity, Record* records,
                   const Record& record) {
  const std::uint64_t index = count.load(std::memory_order_relaxed);
  if (index < capacity) records[index] = record;
  count.store(index + 1, std::memory_order_release);
}

// Cuts at the start of a character, because reports carry the text as UTF-8.
template <std::size_t kSize>
void store_text(std::array<char, kSize>& field, std::string_view text) {
  std::size_t length = std::min(text.size(), kSize - 1);
  if (length < text.size()) {
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) --length;
  }
  std::copy_n(text.data(), length, field.data());
  field[length] = '\0';
}

void store_call(PackedCall& place, const CallMark& call) {
  const auto plus_one = [](int value) { return static_cast<std::uint64_t>(value + 1) & 0xffff; };
  place.with.store(call.bytes << 16 | plus_one(call.peer), std::memory_order_relaxed);
  place.what.store(
      call.number << 24 | plus_one(call.bucket) << 8 | static_cast<std::uint64_t>(call.kind),
      std::memory_order_release);
}

bool is_past_setup(RankState state) {
  return state != RankState::starting && state != RankState::setup && state != RankState::failed;
}

}  // namespace

void RankWriter::state(RankState state) {
  if (!area_) return;
  RankSlot& slot = slot_of(area_);
  if (is_past_setup(state) && slot.ready_s.load(std::memory_order_relaxed) == 0) {
    slot.ready_s.store(steady_s(), std::memory_order_release);
  }
  slot.state.store(state, std::memory_order_release);
  advance(slot.heartbeat);
}

void RankWriter::begin_step(std::uint32_t epoch, std::uint64_t step) {
  if (!area_) return;
  RankSlot& slot = slot_of(area_);
  slot.epoch.store(epoch, std::memory_order_relaxed);
  slot.phase.store(kPhaseCount, std::memory_order_relaxed);
  slot.phase_marks.store(0, std::memory_order_relaxed);
  slot.step.store(step, std::memory_order_release);
  advance(slot.heartbeat);
}

void RankWriter::phase(std::uint32_t phase) {
  if (!area_) return;
  RankSlot& slot = slot_of(area_);
  slot.phase.store(phase, std::memory_order_relaxed);
  advance(slot.phase_marks);
  advance(slot.heartbeat);
}

void RankWriter::loss(double mean) {
  if (!area_) return;
  slot_of(area_).loss.store(mean, std::memory_order_relaxed);
  slot_of(area_).has_loss.store(1, std::memory_order_release);
}

void RankWriter::accuracy(double share) {
  if (!area_) return;
  slot_of(area_).accuracy.store(share, std::memory_order_relaxed);
  slot_of(area_).has_accuracy.store(1, std::memory_order_release);
}

void RankWriter::bucket_done() {
  if (!area_) return;
  advance(slot_of(area_).bucket);
  advance(slot_of(area_).heartbeat);
}

void RankWriter::collective() {
  if (!area_) return;
  advance(slot_of(area_).collective);
  advance(slot_of(area_).heartbeat);
}

void RankWriter::calls(const CallMark& completed, const CallMark& pending) {
  if (!area_) return;
  store_call(slot_of(area_).completed, completed);
  store_call(slot_of(area_).pending, pending);
}

void RankWriter::append(const StepRecord& record) {
  if (!area_) return;
  RankSlot& slot = slot_of(area_);
  append_record(slot.step_count, slot.step_capacity, steps_of(area_), record);
}

void RankWriter::append(const BucketRecord& record) {
  if (!area_) return;
  RankSlot& slot = slot_of(area_);
  append_record(slot.bucket_count, slot.bucket_capacity, buckets_of(area_), record);
}

void RankWriter::append(const ReplicaRecord& record) {
  if (!area_) return;
  RankSlot& slot = slot_of(area_);
  append_record(slot.replica_count, slot.replica_capacity, replicas_of(area_), record);
}

void RankWriter::append(const TraceRecord& record) {
  if (!area_) return;
  RankSlot& slot = slot_of(area_);
  append_record(slot.trace_count, slot.trace_capacity, trace_of(area_), record);
}

void RankWriter::result(std::string_view text) {
  if (!area_) return;
  const RankSlot& slot = slot_of(area_);
  ensure(text.size() <= slot.result_capacity, "a rank's result of {} bytes does not fit into {}",
         text.size(), slot.result_capacity);
  write_result(area_, text);
}

void RankWriter::error(const RankError& error) {
  if (!area_) return;
  RankSlot& slot = slot_of(area_);
  if (slot.has_error.load(std::memory_order_relaxed) != 0) return;
  store_text(slot.error_kind, error.kind);
  store_text(slot.error_operation, error.operation);
  store_text(slot.error_message, error.message);
  slot.exit_code = error.exit_code;
  slot.error_s = steady_s();
  slot.has_error.store(1, std::memory_order_release);
  state(RankState::failed);
}

namespace {

// The text ends before the first zero, or where the array does.
template <std::size_t N>
std::string text_of(const std::array<char, N>& characters) {
  return {characters.begin(), std::ranges::find(characters, '\0')};
}

CallMark read_call(const PackedCall& place) {
  const std::uint64_t what = place.what.load(std::memory_order_acquire);
  const std::uint64_t with = place.with.load(std::memory_order_relaxed);
  const auto less_one = [](std::uint64_t bits) { return static_cast<int>(bits & 0xffff) - 1; };
  return {.number = what >> 24,
          .kind = static_cast<comm::OperationKind>(what & 0xff),
          .bucket = less_one(what >> 8),
          .peer = less_one(with),
          .bytes = with >> 16};
}

}  // namespace

RankChannels::RankChannels(SharedMemory memory) : memory_(std::move(memory)) {}

std::size_t RankChannels::bytes_per_rank(const ChannelLayout& layout) {
  return steps_offset() + aligned(layout.step_capacity * sizeof(StepRecord)) +
         aligned(layout.bucket_capacity * sizeof(BucketRecord)) +
         aligned(layout.replica_capacity * sizeof(ReplicaRecord)) +
         aligned(layout.trace_capacity * sizeof(TraceRecord)) +
         kResultCopies * aligned(layout.result_capacity);
}

RankChannels RankChannels::create(const ChannelLayout& layout) {
  ensure(layout.ranks > 0, "channels for {} ranks", layout.ranks);
  const std::size_t bytes =
      header_bytes() + static_cast<std::size_t>(layout.ranks) * bytes_per_rank(layout);
  RankChannels channels(SharedMemory::create("ddpbench-channels", bytes));
  auto* const header = new (channels.memory_.view().data) ChannelHeader;
  header->layout = layout;
  channels.layout_ = layout;
  for (int rank = 0; rank < layout.ranks; ++rank) {
    auto* const slot = new (channels.area(rank).data()) RankSlot;
    slot->step_capacity = layout.step_capacity;
    slot->bucket_capacity = layout.bucket_capacity;
    slot->replica_capacity = layout.replica_capacity;
    slot->trace_capacity = layout.trace_capacity;
    slot->result_capacity = layout.result_capacity;
  }
  header->magic = kMagic;
  return channels;
}

RankChannels RankChannels::adopt(int fd) {
  RankChannels channels(SharedMemory::adopt(fd));
  const std::size_t bytes = channels.memory_.view().bytes;
  ensure(bytes >= header_bytes() &&
             reinterpret_cast<const ChannelHeader*>(channels.memory_.view().data)->magic == kMagic,
         "descriptor {} does not hold the channels of this program's version", fd);
  const ChannelLayout layout =
      reinterpret_cast<const ChannelHeader*>(channels.memory_.view().data)->layout;
  ensure(layout.ranks > 0 && bytes == header_bytes() + static_cast<std::size_t>(layout.ranks) *
                                                           bytes_per_rank(layout),
         "the channels in descriptor {} have {} bytes, which does not fit {} ranks", fd, bytes,
         layout.ranks);
  channels.layout_ = layout;
  return channels;
}

RankChannels RankChannels::open(const std::string& handle, const ChannelLayout& layout) {
  RankChannels channels(SharedMemory::open(handle));
  const BufferView view = channels.memory_.view();
  const std::size_t bytes =
      header_bytes() + static_cast<std::size_t>(layout.ranks) * bytes_per_rank(layout);
  const auto* const header = reinterpret_cast<const ChannelHeader*>(view.data);
  if (view.bytes != bytes || header->magic != kMagic || header->layout.ranks != layout.ranks) {
    throw CommError(fmt::format("the memory {} does not hold the channels of {} ranks of this run",
                                handle, layout.ranks));
  }
  channels.layout_ = layout;
  return channels;
}

int RankChannels::fd() const { return memory_.fd(); }

std::string RankChannels::handle() const { return memory_.handle(); }

RankWriter RankChannels::writer(int rank) { return RankWriter(area(rank).data()); }

std::span<std::byte> RankChannels::area(int rank) {
  return {area_of(rank), bytes_per_rank(layout())};
}

std::byte* RankChannels::area_of(int rank) const {
  ensure(rank >= 0 && rank < layout().ranks, "rank {} has no channel among {}", rank,
         layout().ranks);
  return memory_.view().data + header_bytes() +
         static_cast<std::size_t>(rank) * bytes_per_rank(layout());
}

// Mends the bounds: a rank that went astray may have written over them.
RankSlot& RankChannels::bounded_slot(int rank) const {
  RankSlot& slot = slot_of(area_of(rank));
  const auto mend = [](std::uint64_t& capacity, std::uint64_t planned) {
    if (capacity != planned) capacity = planned;
  };
  mend(slot.step_capacity, layout_.step_capacity);
  mend(slot.bucket_capacity, layout_.bucket_capacity);
  mend(slot.replica_capacity, layout_.replica_capacity);
  mend(slot.trace_capacity, layout_.trace_capacity);
  mend(slot.result_capacity, layout_.result_capacity);
  return slot;
}

RankStatus RankChannels::status(int rank) const {
  const RankSlot& slot = slot_of(area_of(rank));
  RankStatus status;
  status.heartbeat = slot.heartbeat.load(std::memory_order_acquire);
  status.state = slot.state.load(std::memory_order_acquire);
  status.epoch = slot.epoch.load(std::memory_order_relaxed);
  status.step = slot.step.load(std::memory_order_acquire);
  status.phase = slot.phase.load(std::memory_order_relaxed);
  status.phase_marks = slot.phase_marks.load(std::memory_order_relaxed);
  status.bucket = slot.bucket.load(std::memory_order_relaxed);
  status.collective = slot.collective.load(std::memory_order_relaxed);
  status.completed = read_call(slot.completed);
  status.pending = read_call(slot.pending);
  if (slot.has_loss.load(std::memory_order_acquire) != 0) {
    status.loss = slot.loss.load(std::memory_order_relaxed);
  }
  if (slot.has_accuracy.load(std::memory_order_acquire) != 0) {
    status.accuracy = slot.accuracy.load(std::memory_order_relaxed);
  }
  status.ready_s = slot.ready_s.load(std::memory_order_relaxed);
  if (slot.has_error.load(std::memory_order_acquire) != 0) {
    status.error_s = slot.error_s;
    status.error = RankError{text_of(slot.error_kind), text_of(slot.error_message),
                             text_of(slot.error_operation), slot.exit_code};
  }
  return status;
}

std::span<const StepRecord> RankChannels::steps(int rank) const {
  std::byte* const area = area_of(rank);
  const RankSlot& slot = bounded_slot(rank);
  return {steps_of(area),
          std::min(slot.step_count.load(std::memory_order_acquire), slot.step_capacity)};
}

std::span<const BucketRecord> RankChannels::buckets(int rank) const {
  std::byte* const area = area_of(rank);
  const RankSlot& slot = bounded_slot(rank);
  return {buckets_of(area),
          std::min(slot.bucket_count.load(std::memory_order_acquire), slot.bucket_capacity)};
}

std::span<const ReplicaRecord> RankChannels::replicas(int rank) const {
  std::byte* const area = area_of(rank);
  const RankSlot& slot = bounded_slot(rank);
  return {replicas_of(area),
          std::min(slot.replica_count.load(std::memory_order_acquire), slot.replica_capacity)};
}

std::span<const TraceRecord> RankChannels::trace(int rank) const {
  std::byte* const area = area_of(rank);
  const RankSlot& slot = bounded_slot(rank);
  return {trace_of(area),
          std::min(slot.trace_count.load(std::memory_order_acquire), slot.trace_capacity)};
}

std::uint64_t RankChannels::dropped_trace(int rank) const {
  const RankSlot& slot = bounded_slot(rank);
  const std::uint64_t count = slot.trace_count.load(std::memory_order_acquire);
  return count - std::min(count, slot.trace_capacity);
}

std::uint64_t RankChannels::dropped_steps(int rank) const {
  const RankSlot& slot = bounded_slot(rank);
  const std::uint64_t count = slot.step_count.load(std::memory_order_acquire);
  return count - std::min(count, slot.step_capacity);
}

std::string RankChannels::result(int rank) const {
  static_cast<void>(bounded_slot(rank));
  return read_result(area_of(rank), layout_.result_capacity).text;
}

}  // namespace ddpbench::launch
