// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One matrix product (GEMM) of cuBLASLt: planned once, then run. Its candidates are the algorithms
// that the library's heuristic puts first (autotuner.h). In a deterministic run, and without memory
// for trials, it takes the heuristic's first.
//
// cuBLASLt counts in columns first. A row-major matrix [rows, columns] is its column-major matrix
// of `columns` rows, so products of row-major matrices are written here with the factors swapped:
// the transpose of a b is b^T a^T.
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
  bias,           // d + bias, one value a row of d, of d's type
  relu,           // max(d, 0)
  bias_relu,      // max(d + bias, 0)
  bias_gradient,  // also writes the sums of b over the terms of the product: one a column of d,
                  // fp32
};

// d[m, n] = op(a)[m, k] op(b)[k, n], column-major; leading dimensions are those of what is stored.
struct GemmDesc {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  DataType input = DataType::fp32, output = DataType::fp32;
  Epilogue epilogue = Epilogue::none;
};

class Gemm {
 public:
  // Throws DeviceError when the library has no algorithm. `where` begins what errors say.
  Gemm(Context& context, const GemmDesc& desc, std::string where);
  // Null where the library has none, or refuses to run it after all: it is run once, on memory of
  // its own. Null, too, where the GPU lacks that memory.
  static std::unique_ptr<Gemm> make_if_supported(Context& context, const GemmDesc& desc,
                                                 const std::string& where);

  std::size_t workspace_bytes() const { return heuristic_.workspaceSize; }
  // Which of the heuristic's algorithms runs, from 0 on.
  std::size_t place() const { return place_; }

  // All 16-byte aligned. `vector` is the bias, or the gradient of it. With `accumulate` d += ...
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
  // The library's candidates that keep to the options, its best guess first.
  std::vector<cublasLtMatmulHeuristicResult_t> candidates(const GemmDesc& desc) const;
  bool find_algorithm(const GemmDesc& desc);
  // The place of the one to take.
  std::size_t tune(const GemmDesc& desc,
                   const std::vector<cublasLtMatmulHeuristicResult_t>& candidates);
  // nullopt: none ran.
  std::optional<AlgorithmChoice> fastest(
      const GemmDesc& desc, const std::vector<cublasLtMatmulHeuristicResult_t>& candidates);
  bool runs(const GemmDesc& desc) const;
  cublasStatus_t queue(cudaStream_t stream, const Operands& operands, void* workspace) const;
  bool has_vector() const { return epilogue_ != Epilogue::none && epilogue_ != Epilogue::relu; }
  // Without an algorithm yet, for make_if_supported.
  struct NotYet {};
  Gemm(Context& context, const GemmDesc& desc, std::string where, NotYet);

  Context& context_;
  std::string where_;
  Epilogue epilogue_;
  Handle<cublasLtMatmulDescOpaque_t> operation_;
  Handle<cublasLtMatrixLayoutOpaque_t> a_, b_, d_;
  cublasLtMatmulHeuristicResult_t heuristic_{};
  std::size_t place_ = 0;
};

}  // namespace ddpbench::ops::cuda
