// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The passes of a convolution as an operation runs them: to fp32 gradients of the parameters,
// by an algorithm of cuDNN's with what it needs around it, or by own kernels (few_channels.h).
//
// Around cuDNN's calls run passes over the output, bound by memory bandwidth: backward one that
// rectifies the gradient and sums that of the bias (2 to 3 maps); forward one that adds the bias
// (2 maps), only where the chosen algorithm cannot. In bf16 the gradient of the weights, which
// cuDNN gives in bf16, is widened; one that is added to what is there goes through the workspace,
// too: both small. Own kernels do all of it themselves, and read fp32 weights.
#pragma once

#include "kernels/ops/cuda/library/convolution.h"
#include "kernels/ops/cuda/library/gradient_pass.h"

namespace ddpbench::ops::cuda {

// All: the context and the shape must outlive the pass, which belongs to the shape's algorithm
// `choice`. Pointers as in ForwardArgs and BackwardArgs; `workspace` there has workspace_bytes().
class ForwardPass {
 public:
  ForwardPass(const Context& context, const ConvolutionShape& shape, const AlgorithmChoice& choice);
  std::size_t workspace_bytes() const { return is_own() ? 0 : choice_.workspace_bytes; }
  // Whether it is an own kernel, which reads the parameters as they are kept.
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
  // Returns where the gradient of the output lies, with that of a fused ReLU in it when the input's
  // gradient is wanted: in the workspace, or where it was.
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
  // `dy` is what the filter's pass returned; the workspace is another one.
  void run(const BackwardArgs& args, const void* dy, void* workspace) const;

 private:
  const Context& context_;
  const ConvolutionShape& shape_;
  AlgorithmChoice choice_;
};

}  // namespace ddpbench::ops::cuda
