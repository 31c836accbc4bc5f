// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/launch/rank_channel.h"

#include <algorithm>
#include <new>

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

template <typename Record>
void RankWriter::append(const Record& record) {
  if (!area_) return;
  RankSlot& slot = slot_of(area_);
  std::atomic<std::uint64_t>& count = slot.counts[kKindOf<Record>];
  const std::uint64_t index = count.load(std::memory_order_relaxed);
  if (index < capacities(slot.layout)[kKindOf<Record>])
    records_in<Record>(area_, slot.layout)[index] = record;
  count.store(index + 1, std::memory_order_release);
}
template void RankWriter::append(const StepRecord& record);
template void RankWriter::append(const BucketRecord& record);
template void RankWriter::append(const ReplicaRecord& record);
template void RankWriter::append(const TraceRecord& record);

void RankWriter::result(std::string_view text) {
  if (!area_) return;
  const std::size_t capacity = slot_of(area_).layout.result_capacity;
  ensure(text.size() <= capacity, "a rank's result of {} bytes does not fit into {}", text.size(),
         capacity);
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

std::size_t RankChannels::bytes_per_rank(const ChannelLayout& layout) {
  return result_offset(layout, 0) + kResultCopies * aligned(layout.result_capacity);
}

std::size_t RankChannels::bytes() const {
  return static_cast<std::size_t>(layout_.ranks) * bytes_per_rank(layout_);
}

RankChannels RankChannels::create(const ChannelLayout& layout) {
  ensure(layout.ranks > 0, "channels for {} ranks", layout.ranks);
  RankChannels channels{SharedMemory()};
  channels.layout_ = layout;
  channels.memory_ = SharedMemory::create("ddpbench-channels", channels.bytes());
  for (int rank = 0; rank < layout.ranks; ++rank) {
    (new (channels.area_of(rank)) RankSlot)->layout = layout;
  }
  return channels;
}

RankChannels RankChannels::adopt(int fd) {
  RankChannels channels(SharedMemory::adopt(fd));
  const BufferView view = channels.memory_.view();
  const auto* const first = reinterpret_cast<const RankSlot*>(view.data);
  ensure(view.bytes >= sizeof(RankSlot) && first->magic == kMagic,
         "descriptor {} does not hold the channels of this program's version", fd);
  channels.layout_ = first->layout;
  ensure(channels.layout_.ranks > 0 && view.bytes == channels.bytes(),
         "the channels in descriptor {} have {} bytes, which does not fit {} ranks", fd, view.bytes,
         channels.layout_.ranks);
  return channels;
}

std::span<std::byte> RankChannels::area(int rank) {
  return {area_of(rank), bytes_per_rank(layout_)};
}

std::byte* RankChannels::area_of(int rank) const {
  ensure(rank >= 0 && rank < layout_.ranks, "rank {} has no channel among {}", rank, layout_.ranks);
  return memory_.view().data + static_cast<std::size_t>(rank) * bytes_per_rank(layout_);
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

template <typename Record>
std::span<const Record> RankChannels::records(int rank) const {
  const RankSlot& slot = slot_of(area_of(rank));
  const std::uint64_t count = slot.counts[kKindOf<Record>].load(std::memory_order_acquire);
  return {records_in<Record>(area_of(rank), layout_),
          std::min<std::uint64_t>(count, capacities(layout_)[kKindOf<Record>])};
}
template std::span<const StepRecord> RankChannels::records(int rank) const;
template std::span<const BucketRecord> RankChannels::records(int rank) const;
template std::span<const ReplicaRecord> RankChannels::records(int rank) const;
template std::span<const TraceRecord> RankChannels::records(int rank) const;

std::uint64_t RankChannels::dropped_trace(int rank) const {
  constexpr std::size_t kTrace = kKindOf<TraceRecord>;
  const std::uint64_t count = slot_of(area_of(rank)).counts[kTrace].load(std::memory_order_acquire);
  return count - std::min<std::uint64_t>(count, capacities(layout_)[kTrace]);
}

std::string RankChannels::result(int rank) const {
  return read_result(area_of(rank), layout_).text;
}

}  // namespace ddpbench::launch
