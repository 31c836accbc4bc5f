// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What all operations of one CUDA backend share, and the checks of the libraries' answers.
#pragma once

#include <cublasLt.h>
#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/math.h"
#include "kernels/ops/cuda/library/algorithm_cache.h"
#include "kernels/ops/cuda_backend.h"
#include "kernels/runtime/cuda/cuda_stream.h"
#include "kernels/runtime/data_type.h"

namespace ddpbench::ops::cuda {

// Throw DeviceError "<operation>: <call>: <library's name>: <library's text>" unless `status` is
// success. `operation` also names the shape: "conv2d 3x3 1->32 on [8, 1, 28, 28]".
void check(cudaError_t status, std::string_view operation, const char* call);
void check(cudnnStatus_t status, std::string_view operation, const char* call);
void check(cublasStatus_t status, std::string_view operation, const char* call);

// The factors of products and of old values. The libraries read them at an address.
inline constexpr float kOne = 1, kZero = 0;

using ddpbench::cuda::native_stream;

// Used by the device's leading thread.
struct Context {
  // REQUIRES: the device is current. `device` must outlive it. Throws UnavailableError when the
  // device cannot compute in this precision.
  Context(ddpbench::cuda::NativeDevice& device, const CudaBackendOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // The CUDA stream behind `stream`. cuDNN's calls then go to it.
  cudaStream_t use(Stream& stream) const;

  DataType activation_type() const { return compute_type(options.precision); }

  ddpbench::cuda::NativeDevice& device;
  CudaBackendOptions options;
  cudnnHandle_t cudnn = nullptr;
  cublasLtHandle_t cublas = nullptr;
  std::string machine;  // device, library and options: the first part of the cache's keys
  AlgorithmCache algorithms;
};
using ContextPtr = std::shared_ptr<Context>;

// The parameters as the libraries read them beside activations of `type`: as they are stored, or
// their copies.
template <typename Args>
std::span<const void* const> parameters_beside(DataType type, const Args& args) {
  return type == DataType::fp32 ? args.parameters : args.weight_copies;
}

cudnnDataType_t cudnn_type(DataType type);
cudaDataType_t cublas_type(DataType type);

int attribute_of(const ddpbench::cuda::NativeDevice& device, cudaDeviceAttr attribute,
                 std::string_view where);

// `count` as the kernels take it, which index with 32 bits. Throws BatchTooLarge that names
// the operation when it is 2^31 or more.
std::uint32_t element_index(std::int64_t count, std::string_view operation);

// Adds up a workspace and hands out parts of it, aligned for any kernel.
class WorkspaceLayout {
 public:
  // Returns the offset of a part of `bytes`.
  std::size_t add(std::size_t bytes) {
    const std::size_t offset = bytes_;
    bytes_ += round_up(bytes, kAlignment);
    return offset;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kAlignment = 256;
  std::size_t bytes_ = 0;
};

}  // namespace ddpbench::ops::cuda
