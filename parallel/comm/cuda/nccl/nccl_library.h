// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Translates types to NCCL's and NCCL's errors to ours. For parallel/comm/cuda/nccl only.
#pragma once

#include <nccl.h>

#include <string>

#include "parallel/comm/communicator.h"

namespace ddpbench::comm::nccl {

// Throws CommError "<what>: <NCCL's text>: <its last error>" unless `result` is success.
void check(ncclResult_t result, ncclComm_t communicator, const std::string& what);

ncclDataType_t type_of(DataType type);
ncclRedOp_t op_of(ReduceOp op);

}  // namespace ddpbench::comm::nccl
