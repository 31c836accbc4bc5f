// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The "nccl" backend.
//
// NCCL's communicator blocks: a call returns when it is queued, which costs the host microseconds,
// where a non-blocking one makes a thread a call. What may hang in it nevertheless: making it
// (bounded by a thread of its own, see nccl_make.cpp), and a first call whose peer is lost while
// connections are made; the watchdog aborts NCCL then, which makes that call return. With
// NCCL_RUNTIME_CONNECT=0, which the program sets, collectives are connected while it is made.
//
// Average is ncclAvg: NCCL scales before it adds, so an average is not rounded once only.
#pragma once

#include <nccl.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "parallel/comm/cuda/cuda_communicator.h"

namespace ddpbench::comm {

class NcclCommunicator final : public CudaCommunicator {
 public:
  // Takes over `nccl`.
  NcclCommunicator(ncclComm_t nccl, Device& device, int rank, int size,
                   std::shared_ptr<PeerBoard> board, const CudaCommOptions& options);
  ~NcclCommunicator() override;

  std::string backend() const override { return "nccl"; }
  std::unique_ptr<Communicator> split(int color, int key) override;
  void register_buffer(const Buffer& buffer) override;
  void deregister_buffer(const Buffer& buffer) override;

 private:
  void launch(std::span<const Call> calls) override;
  void queue(const Operation& operation);
  void queue_parts(const Operation& operation);
  void copy_own_part(void* to, const void* from, std::size_t bytes);
  std::string asynchronous_error() override;
  bool abandon() noexcept override;
  void check(ncclResult_t result, const Operation* operation) const;

  // A thread holds it while it is inside NCCL, so that the watchdog does not free what is in use.
  std::mutex mutex_;
  // Null once aborted, which may be under a call that does not return: it has no mutex then.
  std::atomic<ncclComm_t> nccl_;
  Buffer barrier_;  // one number
  std::map<const void*, void*> registrations_;
};

}  // namespace ddpbench::comm
