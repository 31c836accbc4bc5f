// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The words that reports and messages use for the runtime's enumerations.
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/data_type.h"
#include "kernels/runtime/phase.h"

namespace ddpbench {

std::string_view to_string(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::weights:
      return "weights";
    case MemoryCategory::gradients:
      return "gradients";
    case MemoryCategory::optimizer:
      return "optimizer";
    case MemoryCategory::activations:
      return "activations";
    case MemoryCategory::workspace:
      return "workspace";
    case MemoryCategory::communication:
      return "communication";
    case MemoryCategory::input:
      return "input";
  }
  return "unknown";
}

std::string_view to_string(DataType type) {
  switch (type) {
    case DataType::fp32:
      return "fp32";
    case DataType::fp64:
      return "fp64";
    case DataType::bf16:
      return "bf16";
    case DataType::fp16:
      return "fp16";
    case DataType::int32:
      return "int32";
    case DataType::int64:
      return "int64";
    case DataType::uint8:
      return "uint8";
  }
  return "unknown";
}

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::data_wait:
      return "data_wait";
    case Phase::scatter:
      return "scatter";
    case Phase::replicate:
      return "replicate";
    case Phase::forward:
      return "forward";
    case Phase::gather:
      return "gather";
    case Phase::loss:
      return "loss";
    case Phase::backward:
      return "backward";
    case Phase::reduce:
      return "reduce";
    case Phase::comm_wait:
      return "comm_wait";
    case Phase::push:
      return "push";
    case Phase::pull:
      return "pull";
    case Phase::optimizer:
      return "optimizer";
  }
  return "none";
}

}  // namespace ddpbench
