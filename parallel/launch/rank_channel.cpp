// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory layout:
//
// the whole:  | rank 0 | rank 1 | ...
// a rank:     | slot | records of steps | of buckets | of replicas | of traces | result | result |
//
// Every part starts at a multiple of 64 bytes. Pages that are never written cost nothing. A rank's
// area describes itself and holds no address, so it can be sent as bytes.
#include "parallel/launch/rank_channel.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <type_traits>

#include "base/clock.h"
#include "base/error.h"
#include "base/math.h"
#include "base/text.h"

namespace ddpbench::launch {
namespace {

constexpr std::uint64_t kMagic = 0x3863'6e68'6370'6464;  // "ddpchnc8", little endian
constexpr std::size_t kAlignBytes = 64;
constexpr std::size_t kResultCopies = 2;  // the one that readers see, the one being written

// The kinds of records, in the order in which they lie in an area.
constexpr std::size_t kRecordKinds = 4;
constexpr std::array<std::size_t, kRecordKinds> kRecordBytes = {
    sizeof(StepRecord), sizeof(BucketRecord), sizeof(ReplicaRecord), sizeof(TraceRecord)};
std::array<std::size_t, kRecordKinds> capacities(const ChannelLayout& layout) {
  return {layout.step_capacity, layout.bucket_capacity, layout.replica_capacity,
          layout.trace_capacity};
}
template <typename Record>
constexpr std::size_t kKindOf = std::is_same_v<Record, StepRecord>      ? 0
                                : std::is_same_v<Record, BucketRecord>  ? 1
                                : std::is_same_v<Record, ReplicaRecord> ? 2
                                                                        : 3;

// A CallMark in two words, which are written one after the other.
struct PackedCall {
  std::atomic<std::uint64_t> what{0};  // number, bucket + 1 (16 bits), kind (8 bits)
  std::atomic<std::uint64_t> with{0};  // bytes, peer + 1 (16 bits)
};

// One writer, any number of readers. A reader may see single fields of different moments.
struct alignas(kAlignBytes) RankSlot {
  std::uint64_t magic = kMagic;
  ChannelLayout layout;
  std::atomic<RankState> state{RankState::starting};
  std::atomic<std::uint32_t> epoch{0};
  std::atomic<std::uint64_t> step{0};
  std::atomic<std::uint32_t> phase{kPhaseCount};
  std::atomic<std::uint64_t> phase_marks{0};
  std::atomic<std::uint64_t> bucket{0};
  std::atomic<std::uint64_t> collective{0};
  PackedCall completed, pending;
  std::atomic<std::uint64_t> heartbeat{0};
  std::atomic<double> ready_s{0};
  std::atomic<double> loss{0};
  std::atomic<std::uint32_t> has_loss{0};
  std::atomic<double> accuracy{0};
  std::atomic<std::uint32_t> has_accuracy{0};
  std::array<std::atomic<std::uint64_t>, kRecordKinds> counts{};  // appended, dropped ones included
  // Result version v lies in copy v % 2; version 0 is "none". A rank that dies while it writes
  // version v leaves v - 1 readable.
  std::atomic<std::uint64_t> result_version{0};
  std::array<std::atomic<std::uint64_t>, kResultCopies> result_bytes{};
  std::atomic<std::uint32_t> has_error{0};  // published after the fields below
  std::int32_t exit_code = 0;
  double error_s = 0;
  std::array<char, 32> error_kind{};
  std::array<char, 64> error_operation{};
  std::array<char, 4096> error_message{};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                  std::atomic<double>::is_always_lock_free,
              "locks of the C++ library do not work across processes");

constexpr std::size_t aligned(std::size_t bytes) { return round_up(bytes, kAlignBytes); }

// Where the records of a kind begin; of kRecordKinds: the results.
std::size_t records_offset(const ChannelLayout& layout, std::size_t kind) {
  std::size_t offset = aligned(sizeof(RankSlot));
  for (std::size_t k = 0; k < kind; ++k) {
    offset += aligned(capacities(layout)[k] * kRecordBytes[k]);
  }
  return offset;
}
std::size_t result_offset(const ChannelLayout& layout, std::uint64_t version) {
  return records_offset(layout, kRecordKinds) +
         version % kResultCopies * aligned(layout.result_capacity);
}

RankSlot& slot_of(std::byte* area) { return *std::launder(reinterpret_cast<RankSlot*>(area)); }
template <typename Record>
Record* records_in(std::byte* area, const ChannelLayout& layout) {
  return reinterpret_cast<Record*>(area + records_offset(layout, kKindOf<Record>));
}

struct RankResult {
  std::uint64_t version = 0;  // 0: there is none
  std::string text;
};

constexpr std::size_t kWord = sizeof(std::uint64_t);
static_assert(kAlignBytes % kWord == 0, "results begin and end at words");

std::atomic_ref<std::uint64_t> word_at(std::byte* area, std::size_t offset) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(area + offset));
}

// A slow reader may still copy an old version from this place: it looks at the version afterwards,
// and reads again.
void store_words(std::byte* to, std::string_view text) {
  for (std::size_t at = 0; at < text.size(); at += kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min(kWord, text.size() - at));
    word_at(to, at).store(word, std::memory_order_relaxed);
  }
}

// Bytes that another thread may be writing, each word of eight of one moment. REQUIRES: a multiple
// of eight of them at such an address.
std::string copy_words(std::byte* from, std::size_t bytes) {
  std::string copy(bytes, '\0');
  for (std::size_t at = 0; at < bytes; at += kWord) {
    const std::uint64_t word = word_at(from, at).load(std::memory_order_relaxed);
    std::memcpy(copy.data() + at, &word, kWord);
  }
  return copy;
}

// Returns the newest version of the result, never parts of two. The call waits for nobody.
RankResult read_result(std::byte* area, const ChannelLayout& layout) {
  RankSlot& slot = slot_of(area);
  for (;;) {
    const std::uint64_t version = slot.result_version.load(std::memory_order_acquire);
    if (version == 0) return {};
    const std::uint64_t bytes = std::min<std::uint64_t>(
        slot.result_bytes[version % kResultCopies].load(std::memory_order_relaxed),
        layout.result_capacity);
    std::string text = copy_words(area + result_offset(layout, version), round_up(bytes, kWord));
    text.resize(bytes);
    // The writer touches this copy again only after it has published the next version. Adding
    // nothing, with release order, keeps the reads above before the look at the version. (A fence
    // would do that too, but ThreadSanitizer does not know fences.)
    if (slot.result_version.fetch_add(0, std::memory_order_acq_rel) == version) {
      return {version, std::move(text)};
    }
  }
}

// The slot has one writer, so no read-modify-write instruction is needed.
template <typename T>
void advance(std::atomic<T>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

// Cuts at the start of a character, because reports carry the text as UTF-8.
template <std::size_t kSize>
void store_text(std::array<char, kSize>& field, std::string_view text) {
  *std::ranges::copy(cut_at_character(text, kSize - 1), field.begin()).out = '\0';
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

// A message of a mirror is a sequence of parts: where in the area, how many bytes, the bytes.
constexpr std::size_t kMostPartBytes = 4 * kMiB;

struct PartHeader {
  std::uint64_t offset = 0, bytes = 0;
};

void append_part(std::string& message, std::size_t offset, const void* data, std::size_t bytes) {
  const PartHeader header{offset, bytes};
  message.append(reinterpret_cast<const char*>(&header), sizeof header);
  message.append(static_cast<const char*>(data), bytes);
}

// Cuts bytes that belong at `offset` of the area into messages.
void append_range(std::vector<std::string>& messages, std::size_t offset,
                  std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t part = std::min(bytes.size(), kMostPartBytes);
    if (messages.back().size() + part > kMostPartBytes) messages.emplace_back();
    append_part(messages.back(), offset, bytes.data(), part);
    offset += part;
    bytes = bytes.subspan(part);
  }
}

void put(std::string& bytes, std::size_t offset, std::uint64_t value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

}  // namespace

void RankWriter::state(RankState state) {
  RankSlot& slot = slot_of(area_);
  if (is_past_setup(state) && slot.ready_s.load(std::memory_order_relaxed) == 0) {
    slot.ready_s.store(steady_s(), std::memory_order_release);
  }
  slot.state.store(state, std::memory_order_release);
  advance(slot.heartbeat);
}

void RankWriter::begin_step(std::uint32_t epoch, std::uint64_t step) {
  RankSlot& slot = slot_of(area_);
  slot.epoch.store(epoch, std::memory_order_relaxed);
  slot.phase.store(kPhaseCount, std::memory_order_relaxed);
  slot.phase_marks.store(0, std::memory_order_relaxed);
  slot.step.store(step, std::memory_order_release);
  advance(slot.heartbeat);
}

void RankWriter::phase(std::uint32_t phase) {
  RankSlot& slot = slot_of(area_);
  slot.phase.store(phase, std::memory_order_relaxed);
  advance(slot.phase_marks);
  advance(slot.heartbeat);
}

void RankWriter::loss(double mean) {
  slot_of(area_).loss.store(mean, std::memory_order_relaxed);
  slot_of(area_).has_loss.store(1, std::memory_order_release);
}

void RankWriter::accuracy(double share) {
  slot_of(area_).accuracy.store(share, std::memory_order_relaxed);
  slot_of(area_).has_accuracy.store(1, std::memory_order_release);
}

void RankWriter::bucket_done() {
  advance(slot_of(area_).bucket);
  advance(slot_of(area_).heartbeat);
}

void RankWriter::collective() {
  advance(slot_of(area_).collective);
  advance(slot_of(area_).heartbeat);
}

void RankWriter::calls(const CallMark& completed, const CallMark& pending) {
  store_call(slot_of(area_).completed, completed);
  store_call(slot_of(area_).pending, pending);
}

template <typename Record>
void RankWriter::append(const Record& record) {
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
  RankSlot& slot = slot_of(area_);
  const std::size_t capacity = slot.layout.result_capacity;
  ensure(text.size() <= capacity, "a rank's result of {} bytes does not fit into {}", text.size(),
         capacity);
  const std::uint64_t version = slot.result_version.load(std::memory_order_relaxed) + 1;
  store_words(area_ + result_offset(slot.layout, version), text);
  slot.result_bytes[version % kResultCopies].store(text.size(), std::memory_order_relaxed);
  // Exchanged, so that no byte of the next version can be seen before this number.
  slot.result_version.exchange(version, std::memory_order_acq_rel);
}

void RankWriter::error(const RankError& error) {
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

std::vector<std::string> RankMirror::take() {
  RankSlot& slot = slot_of(area_.data());
  std::vector<std::string> messages(1);
  // In this order: what the rank wrote before its error or result is then among the records.
  const bool failed = slot.has_error.load(std::memory_order_acquire) != 0;
  const ChannelLayout& layout = slot.layout;
  const RankResult result = read_result(area_.data(), layout);
  std::array<std::uint64_t, kRecordKinds> counts{};
  for (std::size_t k = 0; k < kRecordKinds; ++k) {
    counts[k] = slot.counts[k].load(std::memory_order_acquire);
    const std::uint64_t last = std::min<std::uint64_t>(counts[k], capacities(layout)[k]);
    const std::size_t begin = records_offset(layout, k) + sent_[k] * kRecordBytes[k];
    append_range(messages, begin, area_.subspan(begin, (last - sent_[k]) * kRecordBytes[k]));
    sent_[k] = last;
  }
  if (result.version != result_version_) {
    result_version_ = result.version;
    append_range(messages, result_offset(layout, ++mirrored_version_),
                 std::as_bytes(std::span(result.text)));
  }
  // The error is most of the slot, and not to be read before it is whole.
  const std::size_t slot_bytes = failed ? sizeof(RankSlot) : offsetof(RankSlot, has_error);
  static_assert(offsetof(RankSlot, has_error) % sizeof(std::uint64_t) == 0, "whole words");
  std::string status = copy_words(area_.data(), slot_bytes);
  std::memcpy(status.data() + offsetof(RankSlot, counts), counts.data(), sizeof counts);
  put(status, offsetof(RankSlot, result_version), mirrored_version_);
  put(status,
      offsetof(RankSlot, result_bytes) + mirrored_version_ % kResultCopies * sizeof(std::uint64_t),
      result.text.size());
  append_part(messages.back(), 0, status.data(), status.size());
  return messages;
}

void apply_mirrored(std::string_view message, std::span<std::byte> area) {
  while (!message.empty()) {
    PartHeader header;
    if (message.size() >= sizeof header) {
      std::memcpy(&header, message.data(), sizeof header);
      message.remove_prefix(sizeof header);
    } else {
      header.bytes = message.size() + 1;
    }
    const bool fits = header.bytes <= message.size() && header.offset <= area.size() &&
                      header.bytes <= area.size() - header.offset;
    if (!fits) throw CommError("the records of a rank on another host do not fit their place");
    std::memcpy(area.data() + header.offset, message.data(), header.bytes);
    message.remove_prefix(header.bytes);
  }
}

}  // namespace ddpbench::launch
