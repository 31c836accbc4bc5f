// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/cuda/stream_memory_operations.h"

#include <algorithm>

#include "kernels/runtime/cuda/driver_function.h"

namespace ddpbench::comm {

namespace {

constexpr std::size_t kMostAtOnce = 255;  // "Must be less than 256" (cuStreamBatchMemOp)

}  // namespace

StreamMemoryOperations::StreamMemoryOperations()
    : batch_(cuda::driver_function<Batch>("cuStreamBatchMemOp")) {}

CUstreamBatchMemOpParams& StreamMemoryOperations::add(CUstreamBatchMemOpType type) {
  operations_.push_back({});
  operations_.back().operation = type;
  return operations_.back();
}

void StreamMemoryOperations::write64(std::uint64_t address, std::uint64_t value) {
  auto& write = add(CU_STREAM_MEM_OP_WRITE_VALUE_64).writeValue;
  write.address = address;
  write.value64 = value;
  write.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
}

void StreamMemoryOperations::write32(std::uint64_t address, std::uint32_t value) {
  auto& write = add(CU_STREAM_MEM_OP_WRITE_VALUE_32).writeValue;
  write.address = address;
  write.value = value;
  write.flags = CU_STREAM_WRITE_VALUE_DEFAULT;  // with the memory barrier
}

void StreamMemoryOperations::wait32(std::uint64_t address, std::uint32_t value) {
  auto& wait = add(CU_STREAM_MEM_OP_WAIT_VALUE_32).waitValue;
  wait.address = address;
  wait.value = value;
  wait.flags = CU_STREAM_WAIT_VALUE_GEQ;
}

void StreamMemoryOperations::queue(cudaStream_t stream) {
  for (std::size_t begin = 0; begin < operations_.size(); begin += kMostAtOnce) {
    const std::size_t count = std::min(kMostAtOnce, operations_.size() - begin);
    const CUresult result = batch_(stream, static_cast<unsigned>(count), &operations_[begin], 0);
    if (result != CUDA_SUCCESS) {
      operations_.clear();
      throw DeviceError(
          fmt::format("the GPU refuses {} stream memory operations (cuStreamBatchMemOp: error {}), "
                      "which ipc between processes needs; use --backend=nccl",
                      count, static_cast<int>(result)));
    }
  }
  operations_.clear();
}

}  // namespace ddpbench::comm
