// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The functions of the CUDA driver that the module looks up by name.
#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/cuda/host/host_memory.h"
#include "tests/cuda/host/host_stream.h"

namespace {

CUresult get_address_range(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  std::uint64_t begin = 0;
  if (!ddpbench::test::block_of(address, begin, *bytes)) return CUDA_ERROR_NOT_FOUND;
  return *base = begin, CUDA_SUCCESS;
}

template <typename T>
std::atomic_ref<T> at(CUdeviceptr address) {
  return std::atomic_ref<T>(*reinterpret_cast<T*>(address));
}

void wait_until_reached(CUdeviceptr address, std::uint32_t value) {
  constexpr int kEagerLooks = 1000;
  for (int looks = 0; static_cast<std::int32_t>(at<std::uint32_t>(address).load() - value) < 0;
       ++looks) {
    if (looks < kEagerLooks) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

void run(const CUstreamBatchMemOpParams& operation) {
  switch (operation.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return wait_until_reached(operation.waitValue.address, operation.waitValue.value);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return at<std::uint32_t>(operation.writeValue.address).store(operation.writeValue.value);
    default:
      return at<std::uint64_t>(operation.writeValue.address).store(operation.writeValue.value64);
  }
}

bool is_right(const CUstreamBatchMemOpParams& operation) {
  switch (operation.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return operation.waitValue.flags == CU_STREAM_WAIT_VALUE_GEQ &&
             ddpbench::test::can_be_reached(operation.waitValue.address, sizeof(std::uint32_t));
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return operation.writeValue.flags == CU_STREAM_WRITE_VALUE_DEFAULT &&
             ddpbench::test::can_be_reached(operation.writeValue.address, sizeof(std::uint32_t));
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return operation.writeValue.flags == CU_STREAM_WRITE_VALUE_DEFAULT &&
             ddpbench::test::can_be_reached(operation.writeValue.address, sizeof(std::uint64_t));
    default:
      return false;
  }
}

CUresult batch_memory_operations(CUstream stream, unsigned count,
                                 CUstreamBatchMemOpParams* operations, unsigned flags) {
  if (count == 0 || count >= 256 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::vector<CUstreamBatchMemOpParams> batch(operations, operations + count);
  for (const CUstreamBatchMemOpParams& operation : batch) {
    if (!is_right(operation)) return CUDA_ERROR_INVALID_VALUE;
  }
  ddpbench::test::queue(stream, [batch] {
    for (const CUstreamBatchMemOpParams& operation : batch) run(operation);
  });
  return CUDA_SUCCESS;
}

cudaError_t find(const char* name, void** function, cudaDriverEntryPointQueryResult* result) {
  *function = nullptr;
  if (std::strcmp(name, "cuStreamBatchMemOp") == 0) {
    *function = reinterpret_cast<void*>(&batch_memory_operations);
  } else if (std::strcmp(name, "cuMemGetAddressRange") == 0) {
    *function = reinterpret_cast<void*>(&get_address_range);
  }
  *result = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // namespace

extern "C" {

#if CUDART_VERSION >= 13000
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  return find(name, function, result);
}
#else
cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long,
                                    cudaDriverEntryPointQueryResult* result) {
  return find(name, function, result);
}
#endif

}  // extern "C"
