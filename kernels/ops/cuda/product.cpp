// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cuda/product.h"

#include <algorithm>

#include "kernels/runtime/error.h"

namespace ddpbench::ops::cuda {
namespace {

constexpr float kOne = 1, kZero = 0;
// Of all operands: parameters and activations lie at multiples of 64 bytes, a batch that the caller
// owns at least at multiples of 16. The library assumes 256 when it is not told.
constexpr std::uint32_t kAlignment = 16;
constexpr std::size_t kWorkspaceLimit = std::size_t{32} << 20;  // NVIDIA's advice for Hopper

cublasLtEpilogue_t native_epilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::relu:
      return CUBLASLT_EPILOGUE_RELU;
    case Epilogue::bias_relu:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case Epilogue::bias_gradient:
      break;
  }
  return CUBLASLT_EPILOGUE_BGRADB;
}

bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kAlignment == 0;
}

}  // namespace

Product::Product(const Context& context, const ProductDesc& desc, std::string where, NotYet)
    : context_(context), where_(std::move(where)), epilogue_(desc.epilogue) {
  describe(desc);
}

Product::Product(const Context& context, const ProductDesc& desc, std::string where)
    : Product(context, desc, std::move(where), NotYet()) {
  if (find_algorithm()) return;
  throw DeviceError(fmt::format("{}: cuBLASLt has no algorithm for {} x {} x {} of {} in {}{}",
                                where_, desc.m, desc.n, desc.k, ddpbench::to_string(desc.input),
                                precision_name(context.options.precision),
                                context.options.deterministic ? ", deterministically" : ""));
}

std::unique_ptr<Product> Product::make_if_supported(const Context& context, const ProductDesc& desc,
                                                    const std::string& where) {
  std::unique_ptr<Product> product(new Product(context, desc, where, NotYet()));
  try {
    return product->find_algorithm() && product->runs(desc) ? std::move(product) : nullptr;
  } catch (const NoPlanningMemory&) {
    return nullptr;
  }
}

void Product::describe(const ProductDesc& desc) {
  const bool tf32 = context_.options.precision == CudaPrecision::tf32;
  cublasLtMatmulDescOpaque_t* operation = nullptr;
  check(cublasLtMatmulDescCreate(
            &operation, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
        where_, "cublasLtMatmulDescCreate");
  operation_.reset(operation);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)), where_,
          "cublasLtMatmulDescSetAttribute");
  };
  const auto transposition = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(CUBLASLT_MATMUL_DESC_TRANSA, static_cast<std::int32_t>(transposition(desc.transpose_a)));
  set(CUBLASLT_MATMUL_DESC_TRANSB, static_cast<std::int32_t>(transposition(desc.transpose_b)));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<std::uint32_t>(native_epilogue(desc.epilogue)));
  if (has_vector()) {
    // The heuristic looks at the alignment of the address, and at nothing behind it.
    const std::uintptr_t aligned = kAlignment;
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, aligned);
  }
  if (desc.epilogue == Epilogue::bias_gradient) {
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(CUDA_R_32F));
  }
  a_ = desc.transpose_a ? matrix(desc.input, desc.k, desc.m) : matrix(desc.input, desc.m, desc.k);
  b_ = desc.transpose_b ? matrix(desc.input, desc.n, desc.k) : matrix(desc.input, desc.k, desc.n);
  d_ = matrix(desc.output, desc.m, desc.n);
}

Product::Handle<cublasLtMatrixLayoutOpaque_t> Product::matrix(DataType type, std::int64_t rows,
                                                              std::int64_t columns) const {
  cublasLtMatrixLayoutOpaque_t* layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, cublas_type(type), static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), rows),
        where_, "cublasLtMatrixLayoutCreate");
  return Handle<cublasLtMatrixLayoutOpaque_t>(layout);
}

bool Product::find_algorithm() {
  cublasLtMatmulPreferenceOpaque_t* preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference), where_, "cublasLtMatmulPreferenceCreate");
  const Handle<cublasLtMatmulPreferenceOpaque_t> owner(preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
          where_, "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceLimit);
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(attribute, kAlignment);
  }
  if (context_.options.deterministic) {
    // Parts of a sum may be added up in the workspace, in a fixed order; not in place.
    const std::uint32_t schemes =
        CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
  }
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(context_.cublas, operation_.get(), a_.get(), b_.get(),
                                     d_.get(), d_.get(), preference, 1, &heuristic_, &found);
  // The second is what some versions say of an epilogue that they do not have for these types.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return false;
  check(status, where_, "cublasLtMatmulAlgoGetHeuristic");
  return found > 0 && heuristic_.state == CUBLAS_STATUS_SUCCESS;
}

bool Product::runs(const ProductDesc& desc) const {
  const auto bytes = [](std::int64_t count, DataType type) {
    return static_cast<std::size_t>(count) * size_of(type);
  };
  const PlanningMemory a(bytes(desc.m * desc.k, desc.input), where_);
  const PlanningMemory b(bytes(desc.k * desc.n, desc.input), where_);
  const PlanningMemory d(bytes(desc.m * desc.n, desc.output), where_);
  const PlanningMemory vector(bytes(std::max(desc.m, desc.n), DataType::fp32), where_);
  const PlanningMemory workspace(workspace_bytes(), where_);
  const std::unique_ptr<Stream> stream = context_.device.make_stream();
  const cublasStatus_t status =
      queue(ddpbench::cuda::native_stream(*stream), {a.data(), b.data(), d.data(), vector.data()},
            workspace.data());
  stream->synchronize();
  return status == CUBLAS_STATUS_SUCCESS;
}

void Product::run(cudaStream_t stream, const Operands& o, void* workspace) const {
  ensure(is_aligned(o.a) && is_aligned(o.b) && is_aligned(o.d) && is_aligned(o.vector),
         "{}: an operand is not aligned to {} bytes", where_, kAlignment);
  check(queue(stream, o, workspace), where_, "cublasLtMatmul");
}

cublasStatus_t Product::queue(cudaStream_t stream, const Operands& o, void* workspace) const {
  if (has_vector()) {
    const cublasStatus_t status = cublasLtMatmulDescSetAttribute(
        operation_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &o.vector, sizeof(o.vector));
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return cublasLtMatmul(context_.cublas, operation_.get(), &kOne, o.a, a_.get(), o.b, b_.get(),
                        o.accumulate ? &kOne : &kZero, o.d, d_.get(), o.d, d_.get(),
                        &heuristic_.algo, workspace, heuristic_.workspaceSize, stream);
}

}  // namespace ddpbench::ops::cuda
