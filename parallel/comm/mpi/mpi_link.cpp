// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/mpi_link.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/math.h"
#include "parallel/comm/mpi/mpi_aside.h"
#include "parallel/comm/mpi/mpi_session.h"

namespace ddpbench::comm {

namespace {

// A caller with a core of its own asks at once for so long, as MPI itself does all the time; then a
// rank gives its core to others between two questions, and after some time sleeps: a rank that
// waits must not cost a working one its core. To give away a core that nobody wants takes no time,
// so over TCP, whose messages take longer, all do that from the beginning.
constexpr double kSpin_s = 1e-3, kYield_s = 2e-3, kLook_s = 5e-3;
constexpr auto kNap = std::chrono::microseconds(50);
// When giving the core away took so long, twice within kSoon_s, others use it. A rank that reaches
// its peers by TCP then sleeps between two questions for a while, and longer: the kernel moves the
// data, and needs the core for it. Four hosts on two cores that all-reduce 25 MiB at 1 Gbit/s
// reach 95.0 % of the link's rate so, 93.5 % without (medians of six in turn); with frames of 9000
// bytes both 98 %.
constexpr double kLostCore_s = 50e-6, kSoon_s = 5e-3, kCrowded_s = 100e-3;
constexpr auto kCrowdedNap = std::chrono::microseconds(100);
// How long notices may take to leave when the communicator ends. After a failure those to a rank
// that has ended never do, and mpirun kills after a second who has not yet said what happened.
constexpr double kFarewell_s = 1, kFailedFarewell_s = 0.1;

// The slot in a tag of 30 bits: 6 of what is called, 10 of the number, 14 of the step.
int tag_of(const Slot& slot) {
  const auto call = static_cast<std::uint32_t>((slot.call * 0x9e3779b97f4a7c15U) >> 58);
  return static_cast<int>(call << 24 | static_cast<std::uint32_t>(slot.number & 0x3ff) << 14 |
                          static_cast<std::uint32_t>(slot.step));
}

// Nothing is added up, so 16-bit floating-point numbers are plain numbers.
MPI_Datatype type_of(DataType type) {
  switch (size_of(type)) {
    case 8:
      return MPI_UINT64_T;
    case 4:
      return MPI_UINT32_T;
    case 2:
      return MPI_UINT16_T;
    default:
      return MPI_UINT8_T;
  }
}

int count_of(std::size_t count) {
  if (count > INT_MAX) {
    throw CommError(fmt::format("{} elements are more than one call of MPI 3.1 takes", count));
  }
  return static_cast<int>(count);
}

}  // namespace

class MpiLink::Moving final : public Transfer {
 public:
  Moving(int peer, bool is_send, std::size_t pieces)
      : Transfer(peer), requests(pieces, MPI_REQUEST_NULL), is_send_(is_send) {}
  ~Moving() override {
    for (MPI_Request& request : requests) {
      if (request == MPI_REQUEST_NULL) continue;
      if (!is_send_) MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
  }
  std::vector<MPI_Request> requests;  // one a piece
  std::size_t done = 0;               // so many of the first are

 private:
  const bool is_send_;
};

MpiLink::MpiLink(int rank, int size, MPI_Comm data, MPI_Comm mail, MpiPlaces places)
    : rank_(rank),
      size_(size),
      data_(data),
      mail_(mail),
      places_(std::move(places)),
      core_each_(places_.ranks_here <= ::sysconf(_SC_NPROCESSORS_ONLN)),
      over_tcp_(std::ranges::any_of(places_.pieces,
                                    [](std::size_t piece) { return piece != kWholePiece; })) {}

// Freeing communicators waits for all ranks in some MPIs: they end with MPI.
MpiLink::~MpiLink() { stop(); }

// MPI matches messages of one tag between two ranks in the order in which they are sent, so all
// pieces have the same.
template <typename Post>
std::unique_ptr<WireLink::Transfer> MpiLink::post(int peer, const Slot& slot, bool is_send,
                                                  std::size_t bytes, const Post& post) const {
  const std::size_t piece =
      slot.collective ? std::min(bytes, places_.pieces[static_cast<std::size_t>(peer)]) : bytes;
  auto moving = std::make_unique<Moving>(peer, is_send, ceil_div(bytes, piece));
  std::size_t offset = 0;
  for (MPI_Request& request : moving->requests) {
    const int count = count_of(std::min(piece, bytes - offset));
    if (post(offset, count, tag_of(slot), &request) != MPI_SUCCESS) throw LostPeer{peer};
    offset += piece;
  }
  return moving;
}

std::unique_ptr<WireLink::Transfer> MpiLink::send(int peer, const Slot& slot, const void* data,
                                                  std::size_t bytes) {
  const auto* const from = static_cast<const std::byte*>(data);
  return post(peer, slot, true, bytes,
              [&](std::size_t offset, int count, int tag, MPI_Request* request) {
                return MPI_Isend(from + offset, count, MPI_BYTE, peer, tag, data_, request);
              });
}

std::unique_ptr<WireLink::Transfer> MpiLink::recv(int peer, const Slot& slot, void* data,
                                                  std::size_t bytes) {
  auto* const to = static_cast<std::byte*>(data);
  return post(peer, slot, false, bytes,
              [&](std::size_t offset, int count, int tag, MPI_Request* request) {
                return MPI_Irecv(to + offset, count, MPI_BYTE, peer, tag, data_, request);
              });
}

void MpiLink::prepare(Waiter waiter) {
  spin_s_.store(waiter == Waiter::caller && core_each_ && !over_tcp_ ? kSpin_s : 0,
                std::memory_order_relaxed);
}

void MpiLink::give_core() const {
  const double begin_s = steady_s();
  ::sched_yield();
  const double end_s = steady_s();
  if (!over_tcp_ || end_s - begin_s < kLostCore_s) return;
  const double before_s = lost_core_s_.exchange(end_s, std::memory_order_relaxed);
  if (end_s - before_s < kSoon_s) {
    crowded_until_s_.store(end_s + kCrowded_s, std::memory_order_relaxed);
  }
}

bool MpiLink::pause(double since_s) const {
  const double now_s = steady_s(), waited_s = now_s - since_s;
  if (waited_s > kLook_s) return false;
  if (now_s < crowded_until_s_.load(std::memory_order_relaxed)) {
    std::this_thread::sleep_for(kCrowdedNap);
    return true;
  }
  if (waited_s < spin_s_.load(std::memory_order_relaxed)) return true;
  waited_s < kYield_s ? give_core() : std::this_thread::sleep_for(kNap);
  return true;
}

bool MpiLink::ask(MPI_Request& request, int peer) const {
  const double since_s = steady_s();
  do {
    int done = 0;
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) throw LostPeer{peer};
    if (done) return true;
  } while (pause(since_s));
  return false;
}

bool MpiLink::wait(Transfer& transfer) {
  auto& moving = static_cast<Moving&>(transfer);
  while (moving.done < moving.requests.size()) {
    if (!ask(moving.requests[moving.done], transfer.peer())) return false;
    ++moving.done;
  }
  return true;
}

// ---- notices ----

// MPI does not tell that a peer has ended: mpirun then ends all.
void MpiLink::listen(std::function<void(int, const Notice&)> hear, std::function<void(int)>) {
  hear_ = std::move(hear);
}

void MpiLink::tell(int peer, const Notice& notice) noexcept {
  const std::lock_guard lock(mail_mutex_);
  forget_sent();
  Sent& sent = sent_.emplace_back(Sent{notice});
  MPI_Isend(&sent.notice, sizeof(Notice), MPI_BYTE, peer, 0, mail_, &sent.request);
}

void MpiLink::forget_sent() noexcept {
  std::erase_if(sent_, [](Sent& sent) {
    int done = 1;
    return MPI_Test(&sent.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done;
  });
}

void MpiLink::poll() {
  const std::unique_lock lock(poll_mutex_, std::try_to_lock);
  if (!lock) return;
  while (true) {
    int found = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, 0, mail_, &found, &status) != MPI_SUCCESS || !found) return;
    Notice notice;
    if (MPI_Recv(&notice, sizeof(Notice), MPI_BYTE, status.MPI_SOURCE, 0, mail_,
                 MPI_STATUS_IGNORE) != MPI_SUCCESS) {
      return;
    }
    hear_(status.MPI_SOURCE, notice);
  }
}

// Notices come only to who asks.
void MpiLink::doze(std::atomic<std::uint32_t>& bell, std::uint32_t seen, Deadline) {
  const double since_s = steady_s();
  do {
    poll();
  } while (bell.load(std::memory_order_seq_cst) == seen && pause(since_s));
}

void MpiLink::give_up() noexcept { mark_mpi_failed(); }

void MpiLink::stop() noexcept {
  const double until_s = steady_s() + (has_mpi_failed() ? kFailedFarewell_s : kFarewell_s);
  while (true) {
    {
      const std::lock_guard lock(mail_mutex_);
      forget_sent();
      if (sent_.empty() || steady_s() > until_s) return;
    }
    std::this_thread::sleep_for(kNap);
  }
}

// ---- MPI's own collectives ----

void MpiLink::start(const Operation& o, MPI_Request& request) const {
  const MPI_Datatype type = type_of(o.part().type);
  const int count = count_of(o.part().count);
  const bool is_root = rank_ == o.root;
  const auto own_part = [&](const Elements& whole, const Elements& part) {
    return static_cast<std::byte*>(whole.data) + static_cast<std::size_t>(rank_) * part.bytes() ==
           part.data;
  };
  switch (o.kind) {
    case OperationKind::broadcast:
      return check_mpi(MPI_Ibcast(o.in.data, count, type, o.root, data_, &request), "MPI_Ibcast");
    case OperationKind::all_gather:
      return check_mpi(MPI_Iallgather(own_part(o.out, o.in) ? MPI_IN_PLACE : o.in.data, count, type,
                                      o.out.data, count, type, data_, &request),
                       "MPI_Iallgather");
    case OperationKind::gather:
      return check_mpi(
          MPI_Igather(is_root && own_part(o.out, o.in) ? MPI_IN_PLACE : o.in.data, count, type,
                      is_root ? o.out.data : nullptr, count, type, o.root, data_, &request),
          "MPI_Igather");
    case OperationKind::scatter:
      return check_mpi(MPI_Iscatter(is_root ? o.in.data : nullptr, count, type,
                                    is_root && own_part(o.in, o.out) ? MPI_IN_PLACE : o.out.data,
                                    count, type, o.root, data_, &request),
                       "MPI_Iscatter");
    case OperationKind::barrier:
      return check_mpi(MPI_Ibarrier(data_, &request), "MPI_Ibarrier");
    default:
      ensure(false, "no collective of MPI: {}", describe(o));
  }
}

// Reductions are ours over MPI's messages: those that do not block are slow in Open MPI 4.1 (an
// all-reduce of 4 KB took twice as long), and MPI 3.1 adds no 16-bit floating-point numbers.
bool MpiLink::run_collective(const Operation& operation, const std::function<void()>& look) {
  switch (operation.kind) {
    case OperationKind::all_reduce:
    case OperationKind::reduce:
    case OperationKind::reduce_scatter:
      return false;
    default:
      break;
  }
  if (operation.kind != OperationKind::barrier && operation.part().count == 0) return true;
  Moving moving(0, true, 1);
  start(operation, moving.requests[0]);
  while (!ask(moving.requests[0], 0)) look();
  return true;
}

}  // namespace ddpbench::comm
