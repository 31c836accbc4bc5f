// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The passes of a convolution as an operation runs them, to fp32 gradients of the parameters. Each
// pass is an algorithm of cuDNN with the passes around it, or an own kernel (few_channels.h).
//
// Around cuDNN's calls run passes over the output, bound by memory bandwidth. Backward, one
// rectifies the gradient and sums the bias's gradient (2 to 3 maps). Forward, one adds the bias (2
// maps), only where the chosen algorithm cannot. cuDNN's bf16 gradient of the weights is widened; a
// gradient that is accumulated goes through the workspace, too. Both are small. Own kernels do all
// of this themselves and read fp32 weights.
#pragma once

#include "kernels/ops/cuda/library/convolution.h"
#include "kernels/ops/cuda/library/gradient_pass.h"

namespace ddpbench::ops::cuda {

// The choice for one pass (autotuner.h). Without a trial it is an own kernel if there is one, else
// the library's guess. The arithmetic stays set in the descriptor of the pass. Throws DeviceError
// when no algorithm keeps to the options.
AlgorithmChoice tune_convolution(Context& context, const ConvolutionShape& shape,
                                 ConvolutionPass pass);

// For all passes: context and shape must outlive the pass, and `choice` is its algorithm for that
// shape. Pointers are as in ForwardArgs and BackwardArgs; `workspace` has workspace_bytes().
class ForwardPass {
 public:
  ForwardPass(const Context& context, const ConvolutionShape& shape, const AlgorithmChoice& choice);
  std::size_t workspace_bytes() const { return is_own() ? 0 : choice_.workspace_bytes; }
  // Whether it is an own kernel, which reads the parameters as they are stored.
  bool is_own() const { return cuda::is_own(choice_); }
  // `stream` is the one that the context uses.
  void run(const ForwardArgs& args, cudaStream_t stream) const;

 private:
  void run_library(const ForwardArgs& args, const float* bias, cudaStream_t stream) const;

  const Context& context_;
  const ConvolutionShape& shape_;
  AlgorithmChoice choice_;
};

// Gradients of weights and bias.
class FilterPass {
 public:
  FilterPass(const Context& context, const ConvolutionShape& shape, const AlgorithmChoice& choice);
  std::size_t workspace_bytes() const { return layout_.bytes(); }
  // Returns where the gradient of the output lies: in the workspace, or where it was. It includes
  // the gradient of a fused ReLU when the input's gradient is wanted.
  const void* run(const BackwardArgs& args, cudaStream_t stream) const;

 private:
  bool is_one_pass() const;
  void run_own(const BackwardArgs& args, const void* dy, cudaStream_t stream) const;
  void run_library(const BackwardArgs& args, const void* dy, cudaStream_t stream) const;

  const Context& context_;
  const ConvolutionShape& shape_;
  AlgorithmChoice choice_;
  WorkspaceLayout layout_;
  GradientPass gradient_pass_;
  std::size_t gradient_ = 0, library_ = 0;
};

// The gradient of the input, by the library.
class DataPass {
 public:
  DataPass(const Context& context, const ConvolutionShape& shape, const AlgorithmChoice& choice);
  std::size_t workspace_bytes() const { return choice_.workspace_bytes; }
  // `dy` is what FilterPass::run returned. The workspace is another one.
  void run(const BackwardArgs& args, const void* dy, void* workspace) const;

 private:
  const Context& context_;
  const ConvolutionShape& shape_;
  AlgorithmChoice choice_;
};

}  // namespace ddpbench::ops::cuda
