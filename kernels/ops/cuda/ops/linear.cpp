// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// linear as three products of cuBLASLt on row-major matrices:
//   y = x w^T + bias,  dx = dy w,  dw = dy^T x,  db = column sums of dy;
// Each product costs 2 * batch * in * out FLOPs and the bytes of its three matrices.
//
// Forward adds the bias and rectifies in the product's epilogue. Backward rectifies dy and sums db
// in one own pass (3 matrices of batch x out). (The library's epilogue for the gradient of a ReLU
// belongs to the product that *makes* dy, which is the next layer's.) Beside narrower activations
// the products read copies of weights and bias in their type; dw is fp32.
//
// Channels-last maps are not reordered. The terms of a product may have any order that x and w
// share, so the weight's columns have the order of the pixels (layout.h).
#include <cublasLt.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/math.h"
#include "kernels/ops/cuda/library/layout.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::cuda {
namespace {

// d[m, n] = op(a)[m, k] op(b)[k, n], column-major. The stored matrices are dense.
struct GemmDesc {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  DataType input = DataType::fp32, output = DataType::fp32;
  bool bias = false;  // d + bias, one value for each row of d, of d's type ...
  bool relu = false;  // ... and then rectified
};

// One matrix product of cuBLASLt, planned once, then run, by the algorithm that the library expects
// to be the fastest.
//
// cuBLASLt is column-major. A row-major matrix [rows, columns] is its column-major matrix with
// `columns` rows, so products of row-major matrices swap the factors here: the transpose of a b is
// b^T a^T.
class Gemm {
 public:
  // Throws DeviceError when the library has no algorithm. `where` begins error messages.
  Gemm(const Context& context, const GemmDesc& desc, std::string where)
      : context_(context), where_(std::move(where)), bias_(desc.bias) {
    describe(desc);
    find_algorithm(desc);
  }

  std::size_t workspace_bytes() const { return heuristic_.workspaceSize; }

  // All 16-byte aligned. With `accumulate`: d += ...
  struct Operands {
    const void *a, *b;
    void* d;
    const void* bias = nullptr;
    bool accumulate = false;
  };
  void run(cudaStream_t stream, const Operands& o, void* workspace) const {
    ensure(is_aligned(o.a) && is_aligned(o.b) && is_aligned(o.d) && is_aligned(o.bias),
           "{}: an operand is not aligned to {} bytes", where_, kAlignment);
    if (bias_) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, o.bias);
    check(cublasLtMatmul(context_.cublas, operation_.get(), &kOne, o.a, a_.get(), o.b, b_.get(),
                         o.accumulate ? &kOne : &kZero, o.d, d_.get(), o.d, d_.get(),
                         &heuristic_.algo, workspace, heuristic_.workspaceSize, stream),
          where_, "cublasLtMatmul");
  }

 private:
  // The alignment of all operands. Parameters and activations lie at multiples of 64 bytes, bf16
  // copies of parameters at multiples of 32, a caller's batch at multiples of 16 at least. The
  // library assumes 256 when it is not told.
  static constexpr std::uint32_t kAlignment = 16;

  struct Deleter {
    void operator()(cublasLtMatmulDescOpaque_t* d) const { cublasLtMatmulDescDestroy(d); }
    void operator()(cublasLtMatrixLayoutOpaque_t* d) const { cublasLtMatrixLayoutDestroy(d); }
    void operator()(cublasLtMatmulPreferenceOpaque_t* d) const {
      cublasLtMatmulPreferenceDestroy(d);
    }
  };
  template <typename Opaque>
  using Handle = std::unique_ptr<Opaque, Deleter>;

  static bool is_aligned(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % kAlignment == 0;
  }

  template <typename Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) const {
    check(cublasLtMatmulDescSetAttribute(operation_.get(), attribute, &value, sizeof(value)),
          where_, "cublasLtMatmulDescSetAttribute");
  }

  void describe(const GemmDesc& desc) {
    const bool tf32 = context_.options.precision == CudaPrecision::tf32;
    cublasLtMatmulDescOpaque_t* operation = nullptr;
    check(cublasLtMatmulDescCreate(
              &operation, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
          where_, "cublasLtMatmulDescCreate");
    operation_.reset(operation);
    const std::int32_t transposed = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, desc.transpose_a ? transposed : plain);
    set(CUBLASLT_MATMUL_DESC_TRANSB, desc.transpose_b ? transposed : plain);
    std::uint32_t epilogue = desc.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
    if (desc.bias) epilogue = desc.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    // The heuristic looks only at the alignment of the address, not at memory.
    if (desc.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, std::uintptr_t{kAlignment});
    a_ = desc.transpose_a ? matrix(desc.input, desc.k, desc.m) : matrix(desc.input, desc.m, desc.k);
    b_ = desc.transpose_b ? matrix(desc.input, desc.n, desc.k) : matrix(desc.input, desc.k, desc.n);
    d_ = matrix(desc.output, desc.m, desc.n);
  }

  Handle<cublasLtMatrixLayoutOpaque_t> matrix(DataType type, std::int64_t rows,
                                              std::int64_t columns) const {
    cublasLtMatrixLayoutOpaque_t* layout = nullptr;
    check(cublasLtMatrixLayoutCreate(&layout, cublas_type(type), static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(columns), rows),
          where_, "cublasLtMatrixLayoutCreate");
    return Handle<cublasLtMatrixLayoutOpaque_t>(layout);
  }

  void find_algorithm(const GemmDesc& desc) {
    constexpr std::size_t kGemmWorkspaceLimit = 32 * kMiB;  // NVIDIA's advice for Hopper
    cublasLtMatmulPreferenceOpaque_t* preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), where_, "cublasLtMatmulPreferenceCreate");
    const Handle<cublasLtMatmulPreferenceOpaque_t> owner(preference);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
            where_, "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kGemmWorkspaceLimit);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(attribute, kAlignment);
    }
    if (context_.options.deterministic || desc.output != DataType::fp32) {
      // Partial sums may be added up in the workspace, in fp32 and in a fixed order. They may not
      // be added up in place or rounded before.
      const std::uint32_t schemes =
          CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
    }
    int found = 0;
    check(cublasLtMatmulAlgoGetHeuristic(context_.cublas, operation_.get(), a_.get(), b_.get(),
                                         d_.get(), d_.get(), preference, 1, &heuristic_, &found),
          where_, "cublasLtMatmulAlgoGetHeuristic");
    if (found > 0 && heuristic_.state == CUBLAS_STATUS_SUCCESS) return;
    throw DeviceError(fmt::format("{}: cuBLASLt has no algorithm for {} x {} x {} of {} in {}{}",
                                  where_, desc.m, desc.n, desc.k, ddpbench::to_string(desc.input),
                                  to_string(context_.options.precision),
                                  context_.options.deterministic ? ", deterministically" : ""));
  }

  const Context& context_;
  std::string where_;
  bool bias_;
  Handle<cublasLtMatmulDescOpaque_t> operation_;
  Handle<cublasLtMatrixLayoutOpaque_t> a_, b_, d_;
  cublasLtMatmulHeuristicResult_t heuristic_{};
};

class Linear final : public Op {
 public:
  Linear(ContextPtr context, const LinearDesc& desc, std::string where)
      : Op(plain_plan(desc)),
        context_(std::move(context)),
        desc_(desc),
        where_(std::move(where)),
        type_(desc.is_plain ? DataType::fp32 : context_->activation_type()) {
    const std::int64_t batch = desc.input.shape[0], in = plan_.parameters[0].shape[1];
    rows_ = element_index(batch, where_);
    columns_ = element_index(desc.out_features, where_);
    in_ = element_index(in, where_);
    element_index(in * desc.out_features, where_);
    element_index(batch * std::max(in, desc.out_features), where_);
    const Shape& maps = desc.input.shape;
    if (is_nhwc(desc.input)) {
      plan_.inputs = {nhwc_layout(maps, type_)};
      plan_.parameters[0].layout = ohwi_layout({columns_, maps[1], maps[2], maps[3]});
    } else {
      plan_.inputs = {TensorLayout::plain(maps, type_)};
    }
    plan_.output = TensorLayout::plain(plan_.output.shape, type_);
    plan_.weight_type = type_;
    make_products();
    plan_.description += fmt::format(" (cublaslt {})", to_string(context_->options.precision));
    lay_out_workspace();
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    const std::span<const void* const> parameters = parameters_beside(type_, args);
    const void* const bias = desc_.bias ? parameters[1] : nullptr;
    forward_->run(native_stream(stream), {parameters[0], args.inputs[0], args.output, bias},
                  args.workspace);
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    const cudaStream_t native = native_stream(stream);
    void* const library = static_cast<std::byte*>(args.workspace) + library_;
    const void* const dy = gradient_pass_.run(args, native, where_);
    if (args.grad_parameters[0] != nullptr) {
      backward_weight_->run(
          native, {args.inputs[0], dy, args.grad_parameters[0], nullptr, args.accumulate}, library);
    }
    if (!backward_data_ || args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    const void* const weight = parameters_beside(type_, args)[0];
    backward_data_->run(native, {weight, dy, args.grad_inputs[0]}, library);
  }

 private:
  void make_products() {
    const std::int64_t batch = rows_, in = in_, out = columns_;
    // y^T [out, batch] = w [out, in] x^T [in, batch]
    const GemmDesc forward{.m = out,
                           .n = batch,
                           .k = in,
                           .transpose_a = true,
                           .input = type_,
                           .output = type_,
                           .bias = desc_.bias,
                           .relu = desc_.fuse_relu};
    forward_.emplace(*context_, forward, where_);
    // dw^T [in, out] = x^T [in, batch] dy [batch, out]
    const GemmDesc weight{.m = in, .n = out, .k = batch, .transpose_b = true, .input = type_};
    backward_weight_.emplace(*context_, weight, where_);
    // dx^T [in, batch] = w^T [in, out] dy^T [out, batch]
    if (!desc_.needs_grad_input) return;
    const GemmDesc data{.m = in, .n = batch, .k = out, .input = type_, .output = type_};
    backward_data_.emplace(*context_, data, where_);
  }

  void lay_out_workspace() {
    WorkspaceLayout backward;
    gradient_pass_ = GradientPass({.type = type_,
                                   .rows = rows_,
                                   .columns = columns_,
                                   .relu = desc_.fuse_relu,
                                   .bias = desc_.bias},
                                  backward);
    std::size_t products = backward_weight_->workspace_bytes();
    if (backward_data_) products = std::max(products, backward_data_->workspace_bytes());
    library_ = backward.add(products);
    plan_.workspace_bytes = std::max(forward_->workspace_bytes(), backward.bytes());
  }

  ContextPtr context_;
  LinearDesc desc_;
  std::string where_;
  DataType type_;
  std::uint32_t rows_ = 0, columns_ = 0, in_ = 0;
  std::optional<Gemm> forward_, backward_weight_, backward_data_;
  std::size_t library_ = 0;  // offset of the workspace of backward's products
  GradientPass gradient_pass_;
};

}  // namespace

std::unique_ptr<Op> make_op(ContextPtr context, const LinearDesc& desc) {
  return std::make_unique<Linear>(std::move(context), desc, where_of(desc));
}

}  // namespace ddpbench::ops::cuda
