// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// PeerBoard: what the hosts of one communicator's ranks tell each other beside the device work. It
// says which ranks are there, how many collectives each has issued (to name a late rank and notice
// a different call) and why the communicator was aborted, and carries short texts such as memory
// handles. It is shared memory of one machine, without CUDA. Thread-safe unless said otherwise.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "kernels/runtime/shared_memory.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/operation.h"
#include "parallel/comm/shm/peers/peer_memory.h"
#include "parallel/comm/store/store.h"
#include "parallel/comm/store/tcp_store_protocol.h"

namespace ddpbench::comm {

// How long a rank waits for its peers, and a function that it calls meanwhile. Without those calls
// a supervisor would take a wait longer than its own deadline for a rank that hangs.
struct PeerWait {
  PeerWait(double seconds, std::function<void()> meanwhile = {})  // NOLINT: implicit by design
      : timeout_s(seconds), tell(std::move(meanwhile)) {}

  double timeout_s;
  // Called every kTellInterval by the thread that waits. May be empty.
  std::function<void()> tell;
};
inline constexpr auto kTellInterval = std::chrono::milliseconds(100);

// Whether `future` is ready before the time is up; calls `tell` meanwhile.
template <typename T>
bool is_ready_in_time(const std::future<T>& future, const PeerWait& wait) {
  const Deadline deadline = deadline_after(wait.timeout_s);
  while (future.wait_for(std::min<DeadlineClock::duration>(
             sleep_until_look(deadline), kTellInterval)) != std::future_status::ready) {
    if (has_passed(deadline)) return false;
    if (wait.tell) wait.tell();
  }
  return true;
}

// Returns or throws what `blocks` does. `blocks` waits for peers with a deadline of its own and
// cannot call `tell` itself, so it runs on another thread where `tell` is set.
template <typename Blocks>
auto tell_while(const PeerWait& wait, Blocks&& blocks) {
  if (!wait.tell) return blocks();
  auto result = std::async(std::launch::async, std::forward<Blocks>(blocks));
  while (result.wait_for(kTellInterval) != std::future_status::ready) wait.tell();
  return result.get();
}

struct BoardSlot;

class PeerBoard {
 public:
  // Texts of exchange() are shorter than this.
  static constexpr std::size_t kTextBytes = 512;

  // For `size` ranks that are threads of this process, or processes.
  static std::shared_ptr<PeerBoard> create(const std::string& name, int size, FutexScope scope);
  static std::shared_ptr<PeerBoard> open(const std::string& handle, int size);
  // Collective over the store: rank 0 creates it. Null when the ranks are not all on one machine.
  static std::shared_ptr<PeerBoard> meet(Store& store, const std::string& name, int rank, int size,
                                         const PeerWait& wait);

  int size() const noexcept { return size_; }
  FutexScope scope() const noexcept { return scope_; }
  std::string handle() const { return memory_.handle(); }

  void attach(int rank) noexcept;
  void leave(int rank) noexcept;

  // Rank `rank` calls its next collective. Returns its number, from 1. Throws CommError when a peer
  // has called another operation under that number. The rank's issuing thread calls it.
  std::uint64_t issue(int rank, const Operation& operation);
  // Called when a rank records calls into a CUDA graph. From now on calls are neither compared nor
  // missed, because replays do not show on the board.
  void stop_counting() noexcept;
  // "rank 2, which did not come"; when all came, "the device, which does not progress".
  std::string late_ranks(int rank, std::uint64_t number) const;
  // "rank 1 (pid 17) has died"; empty while all that matter live. A rank that left matters, too,
  // when it has not issued collective `number`. One thread a rank calls it.
  std::string lost_rank(int rank, std::uint64_t number);

  // A blocking all-gather of short texts, [rank]. Throws CommError, CommTimeout. The rank's issuing
  // thread calls it.
  std::vector<std::string> exchange(int rank, const std::string& text, const PeerWait& wait);

  void abort(int rank, const std::string& reason) noexcept;
  bool aborted() const noexcept;
  // "aborted by rank 1: ...". REQUIRES: aborted().
  std::string abort_reason() const;

 private:
  struct Header {
    AbortNotice notice;
    std::atomic<bool> counts_no_more;
  };

  PeerBoard(SharedMemory memory, int size, FutexScope scope);
  static std::size_t bytes_for(int size);
  BoardSlot& slot(int rank) const noexcept;
  Presence presence_of(int rank) const noexcept;
  Header& header() const noexcept;
  bool counts() const noexcept { return !header().counts_no_more.load(); }
  bool has_died(int peer);

  SharedMemory memory_;
  int size_;
  FutexScope scope_;
  std::mutex processes_mutex_;             // the watchdog looks at peers while exchange() does
  std::vector<FileDescriptor> processes_;  // [rank], opened when first looked at
};

}  // namespace ddpbench::comm
