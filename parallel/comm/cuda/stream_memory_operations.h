// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A batch of writes to memory words and waits for them, which a stream executes in order.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace ddpbench::comm {

class StreamMemoryOperations {
 public:
  StreamMemoryOperations();
  void write64(std::uint64_t address, std::uint64_t value);
  // A reader that sees the value also sees all that the stream did before.
  void write32(std::uint64_t address, std::uint32_t value);
  // Waits until the word is at least `value`.
  void wait32(std::uint64_t address, std::uint32_t value);
  void queue(cudaStream_t stream);  // queues and clears the batch. Throws DeviceError.

 private:
  using Batch = CUresult (*)(CUstream, unsigned, CUstreamBatchMemOpParams*, unsigned);
  CUstreamBatchMemOpParams& add(CUstreamBatchMemOpType type);

  Batch batch_;
  std::vector<CUstreamBatchMemOpParams> operations_;
};

}  // namespace ddpbench::comm
