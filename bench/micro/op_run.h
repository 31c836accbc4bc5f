// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations on any device with all the memory that they work on, and those of SimpleCNN
// (configs/models/simple_cnn.json).
#pragma once

#include <memory>
#include <vector>

#include "kernels/ops/backend.h"

namespace ddpbench::ops {

// Both must outlive the objects that are made on them.
struct Machine {
  Device& device;
  Stream& stream;
};

// Device memory of normally distributed values that repeat every 2^18; uint8: any bytes.
Buffer random_values(const Machine& machine, std::size_t bytes, DataType type);
// Device memory with these bytes.
Buffer upload(const Machine& machine, const void* host, std::size_t bytes);

class OpRun {
 public:
  // Runs forward once, so that backward has what forward saves. With `input_gradients`, backward
  // computes those, too.
  OpRun(const Machine& machine, std::unique_ptr<Op> op, bool input_gradients = true);

  void forward();
  void backward();
  const Op& op() const { return *op_; }
  bool input_gradients() const { return input_gradients_; }

 private:
  template <typename Pointer>
  void add(std::vector<Pointer>& pointers, const TensorLayout& layout);

  Machine machine_;
  std::unique_ptr<Op> op_;
  bool input_gradients_;
  std::vector<Buffer> memory_;
  std::vector<const void*> inputs_, parameters_, bf16_weights_;
  std::vector<void*> grad_inputs_, grad_parameters_, state_;
  Buffer output_, grad_output_, saved_, workspace_;
};

// The layout [batch, channels, extent, extent].
TensorLayout image(std::int64_t batch, std::int64_t channels, std::int64_t extent,
                   DataType type = DataType::fp32);
// A 3x3 convolution with a bias, which keeps the extent.
std::unique_ptr<Op> conv3x3(OpBackend& backend, const TensorLayout& input,
                            std::int64_t out_channels, bool needs_grad_input);
// The same fused with halve(); null where the backend does not fuse them.
std::unique_ptr<Op> conv3x3_halved(OpBackend& backend, const TensorLayout& input,
                                   std::int64_t out_channels, bool needs_grad_input);
// Max-pool 2x2 with ReLU.
std::unique_ptr<Op> halve(OpBackend& backend, const TensorLayout& input);
// The same with a plain output for any input layout; null where the backend has none.
std::unique_ptr<Op> halve_to_plain(OpBackend& backend, const TensorLayout& input);

}  // namespace ddpbench::ops
