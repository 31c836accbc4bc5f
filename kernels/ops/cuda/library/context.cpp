// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cuda/library/context.h"

#include <array>
#include <limits>

#include "base/error.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::cuda {

int attribute_of(const ddpbench::cuda::NativeDevice& device, cudaDeviceAttr attribute,
                 std::string_view where) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attribute, device.ordinal()), where,
        "cudaDeviceGetAttribute");
  return value;
}

namespace {

void check_precision(const ddpbench::cuda::NativeDevice& device, CudaPrecision precision) {
  const int capability = 10 * attribute_of(device, cudaDevAttrComputeCapabilityMajor, "GPU") +
                         attribute_of(device, cudaDevAttrComputeCapabilityMinor, "GPU");
  const int first = first_capability(precision);
  if (capability >= first) return;
  throw UnavailableError(
      fmt::format("precision {} needs a GPU of compute capability {}.0 or later; {} ({}) has {}.{}",
                  to_string(precision), first / 10, device.name(), device.model(), capability / 10,
                  capability % 10));
}

}  // namespace

void check(cudaError_t status, std::string_view operation, const char* call) {
  if (status == cudaSuccess) return;
  throw DeviceError(fmt::format("{}: {}: {}: {}", operation, call, cudaGetErrorName(status),
                                cudaGetErrorString(status)));
}

void check(cudnnStatus_t status, std::string_view operation, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 512> details{};
  cudnnGetLastErrorString(details.data(), details.size());
  throw DeviceError(
      fmt::format("{}: {}: {}: {}", operation, call, cudnnGetErrorString(status), details.data()));
}

void check(cublasStatus_t status, std::string_view operation, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(fmt::format("{}: {}: {}: {}", operation, call, cublasLtGetStatusName(status),
                                cublasLtGetStatusString(status)));
}

Context::Context(ddpbench::cuda::NativeDevice& native, const CudaBackendOptions& backend_options)
    : device(native), options(backend_options), algorithms(backend_options.cache_directory) {
  check_precision(device, options.precision);
  check(cudnnCreate(&cudnn), device.name(), "cudnnCreate");
  const cublasStatus_t status = cublasLtCreate(&cublas);
  if (status != CUBLAS_STATUS_SUCCESS) cudnnDestroy(cudnn);
  check(status, device.name(), "cublasLtCreate");
  machine =
      fmt::format("{}|cudnn {}|{}{}", device.model(), cudnnGetVersion(),
                  to_string(options.precision), options.deterministic ? "|deterministic" : "");
}

Context::~Context() {
  cublasLtDestroy(cublas);
  cudnnDestroy(cudnn);
}

cudaStream_t Context::use(Stream& stream) const {
  cudaStream_t native = native_stream(stream);
  check(cudnnSetStream(cudnn, native), device.name(), "cudnnSetStream");
  return native;
}

cudnnDataType_t cudnn_type(DataType type) {
  if (type == DataType::fp16) return CUDNN_DATA_HALF;
  return type == DataType::fp32 ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16;
}

cudaDataType_t cublas_type(DataType type) {
  if (type == DataType::fp16) return CUDA_R_16F;
  return type == DataType::fp32 ? CUDA_R_32F : CUDA_R_16BF;
}

std::uint32_t element_index(std::int64_t count, std::string_view operation) {
  if (count < 0 || count > std::numeric_limits<std::int32_t>::max())
    throw BatchTooLarge(
        fmt::format("{}: {} elements; the kernels take fewer than 2^31: use a smaller batch",
                    operation, count));
  return static_cast<std::uint32_t>(count);
}

}  // namespace ddpbench::ops::cuda
