// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Stores into the rank's own slot and appends its records.
#include "parallel/launch/rank_writer.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "parallel/launch/rank_result.h"
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

void RankWriter::link_cut(bool is_cut) {
  if (area_) slot_of(area_).link_cut.store(is_cut ? 1 : 0, std::memory_order_release);
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
  slot.has_free_bytes = error.free_bytes ? 1 : 0;
  slot.free_bytes = error.free_bytes.value_or(0);
  slot.error_s = steady_s();
  slot.has_error.store(1, std::memory_order_release);
  state(RankState::failed);
}

}  // namespace ddpbench::launch
