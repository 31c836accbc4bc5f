// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One matrix product (GEMM) of cuBLASLt, planned once, then run. The candidates are the first
// algorithms of the library's heuristic (autotuner.h). In a deterministic run, and without memory
// for trials, the product takes the heuristic's first.
//
// cuBLASLt is column-major. A row-major matrix [rows, columns] is its column-major matrix with
// `columns` rows, so products of row-major matrices swap the factors here: the transpose of a b is
// b^T a^T.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/ops/cuda/library/context.h"

namespace ddpbench::ops::cuda {

enum class Epilogue : std::uint8_t {
  none,
  bias,           // d + bias, one value for each row of d, of d's type
  relu,           // max(d, 0)
  bias_relu,      // max(d + bias, 0)
  bias_gradient,  // also writes the sums of b over the terms of the product: one a column of d,
                  // fp32
};

// d[m, n] = op(a)[m, k] op(b)[k, n], column-major. The stored matrices are dense.
struct GemmDesc {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  DataType input = DataType::fp32, output = DataType::fp32;
  Epilogue epilogue = Epilogue::none;
  bool is_tuned = true;  // false: the heuristic's first algorithm
};

class Gemm {
 public:
  // Throws DeviceError when the library has no algorithm. `where` begins error messages.
  Gemm(Context& context, const GemmDesc& desc, std::string where);
  // Runs the product once, on memory of its own. Null when the library has no algorithm or refuses
  // to run it, and when the GPU lacks that memory.
  static std::unique_ptr<Gemm> make_if_supported(Context& context, const GemmDesc& desc,
                                                 const std::string& where);

  std::size_t workspace_bytes() const { return heuristic_.workspaceSize; }
  // The place of the algorithm in the heuristic's list, from 0 on.
  std::size_t place() const { return place_; }

  // All 16-byte aligned. `vector` is the bias or its gradient. With `accumulate`: d += ...
  struct Operands {
    const void *a, *b;
    void* d;
    const void* vector = nullptr;
    bool accumulate = false;
  };
  void run(cudaStream_t stream, const Operands& operands, void* workspace) const;

 private:
  struct Deleter {
    void operator()(cublasLtMatmulDescOpaque_t* d) const { cublasLtMatmulDescDestroy(d); }
    void operator()(cublasLtMatrixLayoutOpaque_t* d) const { cublasLtMatrixLayoutDestroy(d); }
    void operator()(cublasLtMatmulPreferenceOpaque_t* d) const {
      cublasLtMatmulPreferenceDestroy(d);
    }
  };
  template <typename Opaque>
  using Handle = std::unique_ptr<Opaque, Deleter>;

  void describe(const GemmDesc& desc);
  Handle<cublasLtMatrixLayoutOpaque_t> matrix(DataType type, std::int64_t rows,
                                              std::int64_t columns) const;
  // The library's algorithms that keep to the options, its best guess first.
  std::vector<cublasLtMatmulHeuristicResult_t> candidates(const GemmDesc& desc) const;
  // Returns the place of the algorithm to take.
  std::size_t tune(const GemmDesc& desc,
                   const std::vector<cublasLtMatmulHeuristicResult_t>& candidates);
  // nullopt: none ran.
  std::optional<AlgorithmChoice> fastest(
      const GemmDesc& desc, const std::vector<cublasLtMatmulHeuristicResult_t>& candidates);
  bool runs(const GemmDesc& desc) const;
  cublasStatus_t queue(cudaStream_t stream, const Operands& operands, void* workspace) const;
  bool has_vector() const { return epilogue_ != Epilogue::none && epilogue_ != Epilogue::relu; }

  Context& context_;
  std::string where_;
  Epilogue epilogue_;
  Handle<cublasLtMatmulDescOpaque_t> operation_;
  Handle<cublasLtMatrixLayoutOpaque_t> a_, b_, d_;
  cublasLtMatmulHeuristicResult_t heuristic_{};
  std::size_t place_ = 0;
};

}  // namespace ddpbench::ops::cuda
