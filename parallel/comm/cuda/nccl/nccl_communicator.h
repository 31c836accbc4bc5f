// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The "nccl" backend.
//
// NCCL's communicator blocks: a call returns when it is queued. That costs the host microseconds,
// where a non-blocking one makes a thread a call. Two things may hang nevertheless. One is making
// the communicator; a thread of its own bounds that (nccl_make.cpp). The other is a first call
// whose peer is lost while connections are made; the watchdog then aborts NCCL, so the call
// returns. The program sets NCCL_RUNTIME_CONNECT=0, so collectives are connected when the
// communicator is made.
//
// Average is ncclAvg: NCCL scales before it adds, so an average is rounded more than once.
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
  void check_result(ncclResult_t result, const Operation* operation) const;

  // A thread holds it while it is inside NCCL, so that the watchdog does not free what is in use.
  std::mutex mutex_;
  // Null once aborted. An abort under a call that does not return happens without the mutex.
  std::atomic<ncclComm_t> nccl_;
  Buffer barrier_;  // one number
  std::map<const void*, void*> registrations_;
};

}  // namespace ddpbench::comm
