// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations of CUDA devices, for code that does not know CUDA. They are defined in the CUDA
// module only; code outside of the module reaches them through parallel/cuda_module.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "kernels/ops/backend.h"

namespace ddpbench::ops {

// The arithmetic of products. Weights, gradients, optimizer and loss are fp32 in all of them.
enum class CudaPrecision : std::uint8_t {
  fp32,  // strict: no tensor cores
  tf32,  // fp32 memory, products rounded to TF32 (10 bits of mantissa), sums in fp32
  bf16,  // activations and their gradients in bf16, sums in fp32
};

// The kernels of convolutions that have an own kernel beside the library's algorithms. Own kernels
// compute in fp32 and repeat their bits in every precision.
enum class ConvolutionKernels : std::uint8_t {
  measured,  // for each pass the faster one, by a trial; if deterministic, own ones if any
  library,
  own,
};

struct CudaBackendOptions {
  CudaPrecision precision = CudaPrecision::tf32;
  bool deterministic = false;  // only algorithms whose results repeat bit by bit
  ConvolutionKernels convolutions = ConvolutionKernels::measured;
  std::string cache_directory;  // where tuned choices are kept; empty: nowhere
};

// cuDNN, cuBLASLt and own kernels for a CUDA device, which must outlive the backend. Throws
// DeviceError when a library refuses.
std::unique_ptr<OpBackend> make_cuda_backend(Device& device, const CudaBackendOptions& options);

// The pass that convolutions and linear layers run around the library's calls, as an operation for
// benchmarks. Forward: output += bias, rectified where `relu`, in place; the output holds the
// input. Backward: the gradient of the bias and, with a ReLU, that of the input, which goes into
// the workspace.
struct BiasPassDesc {
  std::int64_t rows = 0, columns = 0;
  bool relu = false;
};
std::unique_ptr<Op> make_cuda_bias_pass(Device& device, const CudaBackendOptions& options,
                                        const BiasPassDesc& desc);

// One bare product of the library (GEMM), for benchmarks of the rate that products reach: output
// [rows, columns] = first input [rows, terms] times the transpose of the second [columns, terms].
// The operands have the backend's activation type. Forward only.
struct BareGemmDesc {
  std::int64_t rows = 0, columns = 0, terms = 0;
};
std::unique_ptr<Op> make_cuda_bare_gemm(Device& device, const CudaBackendOptions& options,
                                        const BareGemmDesc& desc);

// The versions of the loaded libraries, "cudnn" and "cublaslt".
std::map<std::string, std::string> cuda_library_versions();

}  // namespace ddpbench::ops
