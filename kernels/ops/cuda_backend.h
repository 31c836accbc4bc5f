// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations of CUDA devices, for code that does not know CUDA. They are defined in the CUDA
// module only; code outside of the module reaches them through parallel/cuda_module.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/ops/backend.h"

namespace ddpbench::ops {

// The arithmetic of products. Weights, gradients, optimizer and loss are fp32 in all of them.
enum class CudaPrecision : std::uint8_t {
  fp32,  // strict: no tensor cores
  tf32,  // fp32 memory, products rounded to TF32 (10 bits of mantissa), sums in fp32
  bf16,  // activations and their gradients in bf16, sums in fp32
  fp16,  // the same in fp16; the loss must be scaled (loss_scale.h)
};
// The words of --precision, by CudaPrecision.
inline constexpr auto kPrecisionNames =
    std::to_array<std::string_view>({"fp32", "tf32", "bf16", "fp16"});
constexpr std::string_view to_string(CudaPrecision precision) {
  return kPrecisionNames[static_cast<std::size_t>(precision)];
}
// Another word is tf32, which is fp32 on CPU devices.
constexpr CudaPrecision cuda_precision(std::string_view name) {
  for (std::size_t i = 0; i < kPrecisionNames.size(); ++i) {
    if (kPrecisionNames[i] == name) return static_cast<CudaPrecision>(i);
  }
  return CudaPrecision::tf32;
}
// The type of activations and their gradients.
constexpr DataType compute_type(CudaPrecision precision) {
  if (precision == CudaPrecision::fp16) return DataType::fp16;
  return precision == CudaPrecision::bf16 ? DataType::bf16 : DataType::fp32;
}
// The first compute capability, times 10, whose tensor cores take the type.
constexpr int first_capability(CudaPrecision precision) {
  if (precision == CudaPrecision::fp32) return 0;
  return precision == CudaPrecision::fp16 ? 70 : 80;
}

// The kernels of convolutions that have an own kernel beside the library's algorithms. Own kernels
// compute in fp32 and repeat their bits in every precision.
enum class ConvolutionKernels : std::uint8_t { own, library };

struct CudaBackendOptions {
  CudaPrecision precision = CudaPrecision::tf32;
  bool deterministic = false;  // only algorithms whose results repeat bit by bit
  ConvolutionKernels convolutions = ConvolutionKernels::own;
  std::string cache_directory;  // where tuned choices are kept; empty: nowhere
};

// cuDNN, cuBLASLt and own kernels for a CUDA device, which must outlive the backend. Throws
// DeviceError when a library refuses.
std::unique_ptr<OpBackend> make_cuda_backend(Device& device, const CudaBackendOptions& options);

// The versions of the loaded libraries, "cudnn" and "cublaslt".
std::map<std::string, std::string> cuda_library_versions();

}  // namespace ddpbench::ops
