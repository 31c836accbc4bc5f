// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cuda/library/gemm.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/math.h"
#include "base/random.h"
#include "kernels/ops/cuda/library/autotuner.h"

namespace ddpbench::ops::cuda {
namespace {

// The alignment of all operands. Parameters and activations lie at multiples of 64 bytes, bf16
// copies of parameters at multiples of 32, a caller's batch at multiples of 16 at least. The
// library assumes 256 when it is not told.
constexpr std::uint32_t kAlignment = 16;
constexpr std::size_t kGemmWorkspaceLimit = 32 * kMiB;  // NVIDIA's advice for Hopper
// The number of trials. The library sorts algorithms by the time that it estimates.
constexpr int kCandidates = 8;

cublasLtEpilogue_t native_epilogue(Epilogue epilogue) {
  constexpr cublasLtEpilogue_t kNative[] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS,
                                            CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS,
                                            CUBLASLT_EPILOGUE_BGRADB};
  return kNative[static_cast<std::size_t>(epilogue)];
}

bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kAlignment == 0;
}

std::string key_of(const Context& context, const GemmDesc& d) {
  return fmt::format(
      "{}|cublaslt {}|product {} x {} x {}{}{} {} to {} epilogue {}", context.machine,
      cublasLtGetVersion(), d.m, d.n, d.k, d.transpose_a ? " ta" : "", d.transpose_b ? " tb" : "",
      ddpbench::to_string(d.input), ddpbench::to_string(d.output), static_cast<int>(d.epilogue));
}

// The remembered form. It is no place in the heuristic's list, which may differ between processes.
AlgorithmChoice choice_of(const cublasLtMatmulHeuristicResult_t& candidate) {
  const std::uint64_t hash = hash_bytes(candidate.algo.data, sizeof(candidate.algo.data));
  return {.algorithm = static_cast<int>(hash & std::numeric_limits<int>::max()),
          .workspace_bytes = candidate.workspaceSize};
}

// All the memory that a trial of a product touches.
struct TuningMemory {
  TuningMemory(const GemmDesc& desc, std::size_t workspace_bytes, const std::string& where)
      : a(bytes(desc.m * desc.k, desc.input), where),
        b(bytes(desc.k * desc.n, desc.input), where),
        d(bytes(desc.m * desc.n, desc.output), where),
        vector(bytes(std::max(desc.m, desc.n), DataType::fp32), where),
        workspace(workspace_bytes, where) {}

  Gemm::Operands operands() const { return {a.data(), b.data(), d.data(), vector.data()}; }

  PlanningMemory a, b, d, vector, workspace;

 private:
  static std::size_t bytes(std::int64_t count, DataType type) {
    return static_cast<std::size_t>(count) * size_of(type);
  }
};

}  // namespace

Gemm::Gemm(Context& context, const GemmDesc& desc, std::string where)
    : context_(context), where_(std::move(where)), epilogue_(desc.epilogue) {
  describe(desc);
  const std::vector<cublasLtMatmulHeuristicResult_t> found = candidates(desc);
  if (found.empty()) {
    throw DeviceError(fmt::format("{}: cuBLASLt has no algorithm for {} x {} x {} of {} in {}{}",
                                  where_, desc.m, desc.n, desc.k, ddpbench::to_string(desc.input),
                                  to_string(context.options.precision),
                                  context.options.deterministic ? ", deterministically" : ""));
  }
  place_ = tune(desc, found);
  heuristic_ = found[place_];
}

std::unique_ptr<Gemm> Gemm::make_if_supported(Context& context, const GemmDesc& desc,
                                              const std::string& where) {
  try {
    auto product = std::make_unique<Gemm>(context, desc, where);
    if (product->runs(desc)) return product;
  } catch (const NoPlanningMemory&) {
  } catch (const DeviceError&) {  // of a GPU that fails the next call tells
  }
  return nullptr;
}

void Gemm::describe(const GemmDesc& desc) {
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
    // The heuristic looks only at the alignment of the address, not at memory.
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

Gemm::Handle<cublasLtMatrixLayoutOpaque_t> Gemm::matrix(DataType type, std::int64_t rows,
                                                        std::int64_t columns) const {
  cublasLtMatrixLayoutOpaque_t* layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, cublas_type(type), static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), rows),
        where_, "cublasLtMatrixLayoutCreate");
  return Handle<cublasLtMatrixLayoutOpaque_t>(layout);
}

std::vector<cublasLtMatmulHeuristicResult_t> Gemm::candidates(const GemmDesc& desc) const {
  cublasLtMatmulPreferenceOpaque_t* preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference), where_, "cublasLtMatmulPreferenceCreate");
  const Handle<cublasLtMatmulPreferenceOpaque_t> owner(preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
          where_, "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kGemmWorkspaceLimit);
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(attribute, kAlignment);
  }
  if (context_.options.deterministic || desc.output != DataType::fp32) {
    // Partial sums may be added up in the workspace, in fp32 and in a fixed order. They may not be
    // added up in place or rounded before.
    const std::uint32_t schemes =
        CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
  }
  std::vector<cublasLtMatmulHeuristicResult_t> results(kCandidates);
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      context_.cublas, operation_.get(), a_.get(), b_.get(), d_.get(), d_.get(), preference,
      kCandidates, results.data(), &found);
  // Some versions return the second for an epilogue that they lack for these types.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  check(status, where_, "cublasLtMatmulAlgoGetHeuristic");
  results.resize(static_cast<std::size_t>(found));
  std::erase_if(results, [](const auto& r) { return r.state != CUBLAS_STATUS_SUCCESS; });
  return results;
}

// In a deterministic run no measurement decides: its result may differ from day to day.
std::size_t Gemm::tune(const GemmDesc& desc,
                       const std::vector<cublasLtMatmulHeuristicResult_t>& candidates) {
  if (candidates.size() == 1 || context_.options.deterministic || !desc.is_tuned) return 0;
  const auto place_of = [&](const AlgorithmChoice& choice) {
    const auto found = std::ranges::find(candidates, choice, choice_of);
    return static_cast<std::size_t>(found - candidates.begin());
  };
  const std::optional<AlgorithmChoice> choice =
      autotune(context_.algorithms, key_of(context_, desc),
               {.has = [&](const AlgorithmChoice& c) { return place_of(c) < candidates.size(); },
                .fastest = [&] { return fastest(desc, candidates); },
                .untried = [&] { return std::optional(choice_of(candidates.front())); }});
  return choice ? place_of(*choice) : 0;
}

std::optional<AlgorithmChoice> Gemm::fastest(
    const GemmDesc& desc, const std::vector<cublasLtMatmulHeuristicResult_t>& candidates) {
  std::size_t workspace_bytes = 0;
  for (const auto& c : candidates) workspace_bytes = std::max(workspace_bytes, c.workspaceSize);
  const TuningMemory memory(desc, workspace_bytes, where_);
  TuningStream tuning(context_);
  tuning.fill(desc.input, memory.a, desc.m * desc.k, where_);
  tuning.fill(desc.input, memory.b, desc.k * desc.n, where_);
  const auto call = [&] { run(tuning.native(), memory.operands(), memory.workspace.data()); };
  std::optional<AlgorithmChoice> best;
  double shortest_s = std::numeric_limits<double>::infinity();
  for (const auto& candidate : candidates) {
    heuristic_ = candidate;
    const cublasStatus_t status =
        queue(tuning.native(), memory.operands(), memory.workspace.data());
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) continue;
    check(status, where_, "cublasLtMatmul");
    const double time_s = tuning.recorded_s(call);
    if (time_s < shortest_s) best = choice_of(candidate), shortest_s = time_s;
  }
  return best;
}

bool Gemm::runs(const GemmDesc& desc) const {
  const TuningMemory memory(desc, workspace_bytes(), where_);
  const std::unique_ptr<Stream> stream = context_.device.make_stream();
  const cublasStatus_t status =
      queue(native_stream(*stream), memory.operands(), memory.workspace.data());
  stream->synchronize();
  return status == CUBLAS_STATUS_SUCCESS;
}

void Gemm::run(cudaStream_t stream, const Operands& o, void* workspace) const {
  ensure(is_aligned(o.a) && is_aligned(o.b) && is_aligned(o.d) && is_aligned(o.vector),
         "{}: an operand is not aligned to {} bytes", where_, kAlignment);
  check(queue(stream, o, workspace), where_, "cublasLtMatmul");
}

cublasStatus_t Gemm::queue(cudaStream_t stream, const Operands& o, void* workspace) const {
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
