// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of reductions, and copies. It is vectorised for an instruction set chosen at run
// time; the result does not depend on that (no fused multiply-add, one rounding an addition).
#pragma once

#include <cstddef>
#include <span>

#include "parallel/comm/communicator.h"
#include "parallel/comm/shm/collectives/write_tuner.h"

namespace ddpbench::comm {

struct ReduceSpec {
  DataType type = DataType::fp32;
  ReduceOp op = ReduceOp::sum;
  int divisor = 1;  // for an average: the number of ranks
};

// target = sources[0] op sources[1] op ..., from left to right; average divides at the end, rounded
// once more. sources[0] may be target itself. bf16 and fp16 are added in fp32 and rounded after
// each addition; integers wrap, and their average is truncated; the maximum of a NaN is a NaN.
// REQUIRES: at least one source.
void reduce_sources(void* target, std::span<const std::byte* const> sources, std::size_t count,
                    const ReduceSpec& spec, WriteMode mode = WriteMode::cached);

// memcpy with a choice of stores. It fences after non-temporal stores, so that publishing is in
// order.
void copy_bytes(void* target, const void* source, std::size_t bytes,
                WriteMode mode = WriteMode::cached);

}  // namespace ddpbench::comm
