// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the sources of the CUDA module may ask a CUDA device that others may not.
#pragma once

#include <memory>

#include "kernels/runtime/cuda/cuda_clock.h"
#include "kernels/runtime/device.h"

namespace ddpbench::cuda {

class NativeDevice : public Device {
 public:
  virtual int ordinal() const noexcept = 0;  // CUDA's number of the GPU
  virtual std::shared_ptr<CudaClock> clock() const = 0;
};

// Throws InternalError when `device` is of another kind.
NativeDevice& native_device(Device& device);

}  // namespace ddpbench::cuda
