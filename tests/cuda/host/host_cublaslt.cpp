// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// cuBLASLt's stand-in: column-major products, sums in double precision.
#include <cublasLt.h>

#include <algorithm>
#include <cstring>

#include "kernels/ops/cuda/kernels/number.cuh"
#include "tests/cuda/host/host_stream.h"

namespace {

using ddpbench::ops::cuda::Bf16;

struct Operation {
  bool tf32 = false;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* vector = nullptr;
};
struct Matrix {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t leading;
};

// The library's handles point to these.
Operation& of(cublasLtMatmulDesc_t d) { return *reinterpret_cast<Operation*>(d); }
Matrix& of(cublasLtMatrixLayout_t d) { return *reinterpret_cast<Matrix*>(d); }

constexpr std::uint64_t kMark = 0x616c676f;  // marks an algorithm that the heuristic gave
constexpr std::size_t kWorkspace = 300;

struct Preference {
  std::uint32_t alignment = 256;  // the library's default
  std::size_t workspace_bytes = 0;
};
Preference& of(cublasLtMatmulPreference_t d) { return *reinterpret_cast<Preference*>(d); }

float load(cudaDataType type, const void* data, std::uint64_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[i];
  if (type == CUDA_R_16F) return static_cast<float>(static_cast<const _Float16*>(data)[i]);
  return ddpbench::ops::cuda::to_float(static_cast<const Bf16*>(data)[i]);
}
void store(cudaDataType type, void* data, std::uint64_t i, double value) {
  const auto rounded = static_cast<float>(value);
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[i] = rounded;
  } else if (type == CUDA_R_16F) {
    static_cast<_Float16*>(data)[i] = static_cast<_Float16>(rounded);
  } else {
    static_cast<Bf16*>(data)[i] = ddpbench::ops::cuda::from_float<Bf16>(rounded);
  }
}

// Element (row, column) of op(matrix), column-major.
double element(const Matrix& m, bool transpose, const void* data, std::uint64_t row,
               std::uint64_t column, bool tf32) {
  if (transpose) std::swap(row, column);
  const float value = load(m.type, data, column * static_cast<std::uint64_t>(m.leading) + row);
  return tf32 ? ddpbench::test::round_to_tf32(value) : value;
}

bool is_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

// One product. It copies all arguments, since it may run later.
struct Product {
  Operation operation;
  Matrix a, b, d;
  const void *a_data, *b_data;
  void* d_data;
  float beta;

  bool transpose_a() const { return operation.transpose_a == CUBLAS_OP_T; }
  bool transpose_b() const { return operation.transpose_b == CUBLAS_OP_T; }
  std::uint64_t terms() const { return transpose_a() ? a.rows : a.columns; }
  bool fits() const {
    return (transpose_a() ? a.columns : a.rows) == d.rows &&
           (transpose_b() ? b.rows : b.columns) == d.columns &&
           (transpose_b() ? b.columns : b.rows) == terms() && a.type == b.type &&
           a.leading >= static_cast<std::int64_t>(a.rows) &&
           b.leading >= static_cast<std::int64_t>(b.rows) &&
           d.leading >= static_cast<std::int64_t>(d.rows);
  }

  void run() const {
    const bool bias = (operation.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
    const bool relu = (operation.epilogue & CUBLASLT_EPILOGUE_RELU) != 0;
    for (std::uint64_t j = 0; j < d.columns; ++j) {
      for (std::uint64_t i = 0; i < d.rows; ++i) {
        double sum = 0;
        for (std::uint64_t t = 0; t < terms(); ++t) {
          sum += element(a, transpose_a(), a_data, i, t, operation.tf32) *
                 element(b, transpose_b(), b_data, t, j, operation.tf32);
        }
        const std::uint64_t at = j * static_cast<std::uint64_t>(d.leading) + i;
        if (beta != 0) sum += beta * load(d.type, d_data, at);
        if (bias) sum += load(d.type, operation.vector, i);
        store(d.type, d_data, at, relu && sum < 0 ? 0 : sum);
      }
    }
  }
};

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return 130100; }
const char* cublasLtGetStatusName(cublasStatus_t) { return "CUBLAS_STATUS_OF_THE_HOST"; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "an error of the stand-in"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  auto* const operation = new Operation;
  operation->tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  *d = reinterpret_cast<cublasLtMatmulDesc_t>(operation);
  return scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  return delete &of(d), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  const auto set = [&](auto& field) {
    if (bytes != sizeof(field)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(of(d).transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(of(d).transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(of(d).epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(of(d).vector);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* d, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  *d = reinterpret_cast<cublasLtMatrixLayout_t>(new Matrix{type, rows, columns, leading});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t d) {
  return delete &of(d), CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* d) {
  *d = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t d) {
  return delete &of(d), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t d,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    if (bytes != sizeof(std::uint64_t)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&of(d).workspace_bytes, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  }
  if (bytes != sizeof(std::uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES) {
    std::memcpy(&of(d).alignment, value, bytes);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  const Product product{of(operation), of(a), of(b), of(d), nullptr, nullptr, nullptr, 0};
  if (!product.fits() || of(preference).workspace_bytes < kWorkspace ||
      of(preference).alignment > 16) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *found = std::min(requested, 1);
  results[0] = {};
  results[0].algo.data[0] = kMark;
  results[0].workspaceSize = kWorkspace;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t bytes,
                              cudaStream_t stream) {
  const Product product{of(operation),
                        of(a_layout),
                        of(b_layout),
                        of(d_layout),
                        a,
                        b,
                        d,
                        *static_cast<const float*>(beta)};
  const bool aligned = is_aligned(a) && is_aligned(b) && is_aligned(d) && is_aligned(workspace) &&
                       is_aligned(product.operation.vector);
  if (!product.fits() || !aligned || c != d || *static_cast<const float*>(alpha) != 1 ||
      algorithm->data[0] != kMark || bytes < kWorkspace) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  ddpbench::test::queue(stream, [=] {
    std::memset(workspace, 0xFF, bytes);
    product.run();
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
