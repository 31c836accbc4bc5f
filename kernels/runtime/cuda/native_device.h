// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What only the sources of the CUDA module may ask of a CUDA device.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <memory>
#include <string>

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

// "GPU-...", as nvidia-smi and CUDA_VISIBLE_DEVICES write it.
inline std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

}  // namespace ddpbench::cuda
