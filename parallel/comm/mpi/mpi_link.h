// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// MpiLink: one rank's place in two communicators of MPI, one for collectives and transfers, one for
// notices. MPI progresses only while it is called, so a rank that waits asks again and again.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "parallel/comm/mpi/mpi_pieces.h"
#include "parallel/comm/wire/wire_link.h"

namespace ddpbench::comm {

class MpiLink final : public WireLink {
 public:
  // `data` and `mail` are communicators of the same `size` processes, of which this is `rank`.
  MpiLink(int rank, int size, MPI_Comm data, MPI_Comm mail, MpiPlaces places);
  ~MpiLink() override;

  std::unique_ptr<Transfer> send(int peer, const Slot& slot, const void* data,
                                 std::size_t bytes) override;
  std::unique_ptr<Transfer> recv(int peer, const Slot& slot, void* data,
                                 std::size_t bytes) override;
  void prepare(Waiter waiter) override;
  bool wait(Transfer& transfer) override;
  void listen(std::function<void(int peer, const Notice&)> hear,
              std::function<void(int peer)> lose) override;
  void tell(int peer, const Notice& notice) noexcept override;
  void poll() override;
  void doze(std::atomic<std::uint32_t>& bell, std::uint32_t seen, Deadline deadline) override;
  bool run_collective(const Operation& operation, const std::function<void()>& look) override;
  void give_up() noexcept override;
  void stop() noexcept override;

 private:
  class Moving;  // a transfer
  struct Sent {
    Notice notice;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  // Calls post(offset, bytes, request) for each piece of a transfer.
  template <typename Post>
  std::unique_ptr<Transfer> post(int peer, const Slot& slot, bool is_send, std::size_t bytes,
                                 const Post& post) const;
  // Asks until the request is done, or for some milliseconds; whether it is done. Throws LostPeer.
  bool ask(MPI_Request& request, int peer) const;
  // Waits a moment between two questions, the first of which was at `since_s`; false when it is
  // time to look around.
  bool pause(double since_s) const;
  void give_core() const;
  void start(const Operation& operation, MPI_Request& request) const;
  void forget_sent() noexcept;

  const int rank_;
  const int size_;
  const MPI_Comm data_, mail_;
  const MpiPlaces places_;
  std::function<void(int, const Notice&)> hear_;
  std::mutex mail_mutex_;  // over sent_
  std::list<Sent> sent_;
  std::mutex poll_mutex_;
  const bool core_each_, over_tcp_;
  mutable std::atomic<double> lost_core_s_ = 0;      // when others had last used this rank's core
  mutable std::atomic<double> crowded_until_s_ = 0;  // others use this rank's core until then
  std::atomic<double> spin_s_ = 0;
};

}  // namespace ddpbench::comm
