// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/cuda/nccl/nccl_library.h"

#include "base/error.h"

namespace ddpbench::comm::nccl {

void check(ncclResult_t result, ncclComm_t communicator, const std::string& what) {
  if (result == ncclSuccess) return;
  throw CommError(fmt::format("{}: NCCL: {}: {}", what, ncclGetErrorString(result),
                              ncclGetLastError(communicator)));
}

ncclDataType_t type_of(DataType type) {
  switch (type) {
    case DataType::fp32:
      return ncclFloat32;
    case DataType::fp64:
      return ncclFloat64;
    case DataType::bf16:
      return ncclBfloat16;
    case DataType::fp16:
      return ncclFloat16;
    case DataType::int32:
      return ncclInt32;
    case DataType::int64:
      return ncclInt64;
    case DataType::uint8:
      return ncclUint8;
  }
  throw InternalError(fmt::format("NCCL has no data type {}", static_cast<int>(type)));
}

ncclRedOp_t op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::average:
      return ncclAvg;
    case ReduceOp::maximum:
      return ncclMax;
  }
  throw InternalError(fmt::format("NCCL has no operation {}", static_cast<int>(op)));
}

}  // namespace ddpbench::comm::nccl
