// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/cuda/peer_board.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "parallel/comm/shm/peers/peer_memory.h"

namespace ddpbench::comm {

namespace {

// Calls of a rank that stay readable. A rank that is further ahead is not compared any more.
constexpr std::size_t kCalls = 64;
constexpr auto kLook = std::chrono::microseconds(50);

std::uint64_t what_of(const Operation& operation) {
  return static_cast<std::uint64_t>(operation.kind) |
         static_cast<std::uint64_t>(operation.part().type) << 8 |
         static_cast<std::uint64_t>(operation.op) << 16 |
         static_cast<std::uint64_t>(operation.root) << 32;
}

Operation told_operation(std::uint64_t what, std::uint64_t count) {
  return Operation::told(static_cast<OperationKind>(what & 0xff),
                         static_cast<ReduceOp>(what >> 16 & 0xff), static_cast<int>(what >> 32),
                         count, static_cast<DataType>(what >> 8 & 0xff));
}

}  // namespace

// One call. `number` is zeroed first and written last, so that a torn call is not believed.
struct BoardCall {
  std::atomic<std::uint64_t> number;
  std::atomic<std::uint64_t> what;  // kind, type and operation, a byte each, and the root
  std::atomic<std::uint64_t> count;
};

struct BoardSlot {
  alignas(kCacheLineBytes) std::atomic<Presence> presence;
  std::atomic<std::int32_t> pid;
  std::atomic<std::uint64_t> issued;
  std::atomic<std::uint64_t> exchanged;
  std::array<BoardCall, kCalls> calls;
  std::array<std::array<char, PeerBoard::kTextBytes>, 2> texts;
};

std::size_t PeerBoard::bytes_for(int size) {
  return sizeof(Header) + static_cast<std::size_t>(size) * sizeof(BoardSlot);
}

PeerBoard::PeerBoard(SharedMemory memory, int size, FutexScope scope)
    : memory_(std::move(memory)),
      size_(size),
      scope_(scope),
      processes_(static_cast<std::size_t>(size)) {}

std::shared_ptr<PeerBoard> PeerBoard::create(const std::string& name, int size, FutexScope scope) {
  return std::shared_ptr<PeerBoard>(
      new PeerBoard(SharedMemory::create("ddpbench-board-" + name, bytes_for(size)), size, scope));
}

std::shared_ptr<PeerBoard> PeerBoard::open(const std::string& handle, int size) {
  SharedMemory memory = SharedMemory::open(handle);
  if (memory.view().bytes < bytes_for(size)) {
    throw CommError(fmt::format("the board of another rank has {} bytes, not {}",
                                memory.view().bytes, bytes_for(size)));
  }
  return std::shared_ptr<PeerBoard>(new PeerBoard(std::move(memory), size, FutexScope::host));
}

std::shared_ptr<PeerBoard> PeerBoard::meet(Store& store, const std::string& name, int rank,
                                           int size, const PeerWait& wait) {
  const std::string key = name + "/board";
  const auto mark_key = [&](int peer) { return fmt::format("{}/{}", key, peer); };
  auto board = tell_while(wait, [&]() -> std::shared_ptr<PeerBoard> {
    store.set(mark_key(rank), host_mark());
    bool one_host = true;
    for (int peer = 0; peer < size; ++peer) {
      one_host = store.get(mark_key(peer), wait.timeout_s) == host_mark() && one_host;
    }
    if (!one_host) return nullptr;
    if (rank != 0) return open(store.get(key, wait.timeout_s), size);
    auto made = create(name, size, FutexScope::host);
    store.set(key, made->handle());
    return made;
  });
  if (!board) return nullptr;
  board->attach(rank);
  board->exchange(rank, "", wait);  // rank 0's descriptor may go when all have opened it
  return board;
}

BoardSlot& PeerBoard::slot(int rank) const noexcept {
  std::byte* const slots = memory_.view().data + sizeof(Header);
  return reinterpret_cast<BoardSlot*>(slots)[rank];
}

Presence PeerBoard::presence_of(int rank) const noexcept {
  return slot(rank).presence.load(std::memory_order_acquire);
}

PeerBoard::Header& PeerBoard::header() const noexcept {
  return *reinterpret_cast<Header*>(memory_.view().data);
}

void PeerBoard::stop_counting() noexcept { header().counts_no_more.store(true); }

void PeerBoard::attach(int rank) noexcept {
  slot(rank).pid.store(::getpid(), std::memory_order_relaxed);
  slot(rank).presence.store(Presence::attached, std::memory_order_release);
}

void PeerBoard::leave(int rank) noexcept {
  slot(rank).presence.store(Presence::left, std::memory_order_release);
}

std::uint64_t PeerBoard::issue(int rank, const Operation& operation) {
  BoardSlot& own = slot(rank);
  const std::uint64_t number = own.issued.load(std::memory_order_relaxed) + 1;
  BoardCall& call = own.calls[number % kCalls];
  const std::uint64_t what = what_of(operation);
  const std::uint64_t count = operation.part().count;
  call.number.store(0);
  call.what.store(what);
  call.count.store(count);
  call.number.store(number);
  own.issued.store(number);
  if (!counts()) return number;
  for (int peer = 0; peer < size_; ++peer) {
    // The later one of two ranks sees the other's call.
    const BoardCall& theirs = slot(peer).calls[number % kCalls];
    if (peer == rank || theirs.number.load() != number) continue;
    const std::uint64_t their_what = theirs.what.load(), their_count = theirs.count.load();
    if (theirs.number.load() != number) continue;
    check_same_call(rank, size_, operation, peer, told_operation(their_what, their_count));
  }
  return number;
}

std::string PeerBoard::late_ranks(int rank, std::uint64_t number) const {
  if (!counts()) return "its peers";
  std::string late;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank || slot(peer).issued.load(std::memory_order_acquire) >= number) continue;
    late += fmt::format("{}{}", late.empty() ? "" : ", ", peer);
  }
  return late.empty() ? "the device, which does not progress though all ranks have come"
                      : fmt::format("rank {}, which did not come", late);
}

bool PeerBoard::has_died(int peer) {
  if (scope_ == FutexScope::process) return false;
  const std::lock_guard lock(processes_mutex_);
  FileDescriptor& process = processes_[static_cast<std::size_t>(peer)];
  if (!process) {
    process = open_process(slot(peer).pid.load(std::memory_order_relaxed));
    // The process ended before it was looked at. A kernel without pidfd_open gives another error.
    if (!process) return errno == ESRCH;
  }
  return has_ended(process);
}

std::string PeerBoard::lost_rank(int rank, std::uint64_t number) {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank || presence_of(peer) == Presence::absent) continue;
    // The order matters: a process that ends well has left before.
    const bool dead = has_died(peer);
    const bool left = presence_of(peer) == Presence::left;
    const bool came = !counts() || slot(peer).issued.load(std::memory_order_acquire) >= number;
    if (left) {
      // A rank leaves when its own work is done, including each collective that it called.
      if (!came) return fmt::format("rank {} has left the communicator", peer);
    } else if (dead) {
      return fmt::format("rank {} (pid {}) has died", peer,
                         slot(peer).pid.load(std::memory_order_relaxed));
    }
  }
  return "";
}

std::vector<std::string> PeerBoard::exchange(int rank, const std::string& text,
                                             const PeerWait& wait) {
  ensure(text.size() < kTextBytes, "a text of {} bytes on the board", text.size());
  BoardSlot& own = slot(rank);
  const std::uint64_t number = own.exchanged.load(std::memory_order_relaxed) + 1;
  // This place held the text of two exchanges ago. Peers read that before they began the last
  // exchange, in which this rank awaited them.
  auto& target = own.texts[number % 2];
  std::memcpy(target.data(), text.c_str(), text.size() + 1);
  own.exchanged.store(number, std::memory_order_release);
  const Deadline deadline = deadline_after(wait.timeout_s);
  auto told = DeadlineClock::now();
  std::vector<std::string> all;
  for (int peer = 0; peer < size_; ++peer) {
    BoardSlot& other = slot(peer);
    while (other.exchanged.load(std::memory_order_acquire) < number) {
      if (aborted()) throw CommError(fmt::format("rank {} of {}: {}", rank, size_, abort_reason()));
      const Presence presence = presence_of(peer);
      const bool lost = presence == Presence::left ||
                        (presence == Presence::attached && peer != rank && has_died(peer));
      if (lost && other.exchanged.load(std::memory_order_acquire) < number) {
        throw CommError(
            fmt::format("rank {} of {}: rank {} {}", rank, size_, peer,
                        presence == Presence::left ? "has left the communicator" : "has died"));
      }
      const auto now = DeadlineClock::now();
      if (now >= deadline) {
        throw CommTimeout(fmt::format("rank {} of {}: rank {} did not join within {} s", rank,
                                      size_, peer, wait.timeout_s));
      }
      if (wait.tell && now - told >= kTellInterval) {
        told = now;
        wait.tell();
      }
      std::this_thread::sleep_for(kLook);
    }
    all.emplace_back(other.texts[number % 2].data());
  }
  return all;
}

void PeerBoard::abort(int rank, const std::string& reason) noexcept {
  AbortNotice& own = header().notice;
  std::uint32_t none = AbortNotice::kNone;
  if (!own.state.compare_exchange_strong(none, AbortNotice::kWriting)) return;
  own.rank = rank;
  const std::size_t length = std::min(reason.size(), own.reason.size() - 1);
  std::memcpy(own.reason.data(), reason.data(), length);
  own.reason[length] = '\0';
  own.state.store(AbortNotice::kReadable, std::memory_order_seq_cst);
}

bool PeerBoard::aborted() const noexcept {
  return header().notice.state.load(std::memory_order_acquire) == AbortNotice::kReadable;
}

std::string PeerBoard::abort_reason() const {
  return fmt::format("aborted by rank {}: {}", header().notice.rank, header().notice.reason.data());
}

}  // namespace ddpbench::comm
