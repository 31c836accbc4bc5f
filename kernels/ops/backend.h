// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// OpBackend makes the operations of one kind of device. A new kind of device implements this once.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "kernels/ops/batch_gather.h"
#include "kernels/ops/loss.h"
#include "kernels/ops/mean.h"
#include "kernels/ops/op.h"
#include "kernels/ops/sgd.h"
#include "kernels/runtime/device.h"

namespace ddpbench::ops {

class OpBackend {
 public:
  virtual ~OpBackend() = default;

  virtual std::string name() const = 0;  // "onednn", "reference", "cuda"

  // Each plans one operation for fixed shapes. Throw ConfigError for shapes that make no sense
  // (empty output, no input), DeviceError when the library refuses.
  virtual std::unique_ptr<Op> conv2d(const Conv2dDesc& desc) = 0;
  virtual std::unique_ptr<Op> max_pool2d(const MaxPool2dDesc& desc) = 0;
  // A convolution and the pool that alone reads its output, as one operation, whose parameters are
  // the convolution's and whose output is the pool's; `pool.input` is not looked at. Null, which is
  // no error, where the two are better apart or there is no such operation.
  virtual std::unique_ptr<Op> conv2d_max_pool2d(const Conv2dDesc&, const MaxPool2dDesc&) {
    return nullptr;
  }
  // Whether max_pool2d() should add the bias of a convolution whose output only it reads
  // (MaxPool2dDesc::bias) in place of conv2d(). Of the pool the input is not known yet. Where this
  // is false for all, max_pool2d() may refuse a bias with a DeviceError.
  virtual bool adds_bias_in_pool(const Conv2dDesc&, const MaxPool2dDesc&) const { return false; }
  virtual std::unique_ptr<Op> linear(const LinearDesc& desc) = 0;
  virtual std::unique_ptr<Op> relu(const ReluDesc& desc) = 0;
  virtual std::unique_ptr<Op> add(const AddDesc& desc) = 0;
  virtual std::unique_ptr<Op> reorder(const ReorderDesc& desc) = 0;
  virtual std::unique_ptr<SoftmaxCrossEntropy> softmax_cross_entropy(std::int64_t batch,
                                                                     std::int64_t classes) = 0;
  // What softmax_cross_entropy() allocates on the device (workspace).
  virtual std::size_t loss_bytes(std::int64_t, std::int64_t) const { return 0; }
  virtual std::unique_ptr<Sgd> sgd() = 0;
  virtual std::unique_ptr<Mean> mean() = 0;
  virtual std::unique_ptr<BatchGather> batch_gather() = 0;

  // One-off conversion between layouts of equal element count, for initialisation, checkpoints and
  // verification; allocates, blocks until done. `from` and `to` point to device memory.
  virtual void convert(const TensorLayout& from_layout, const void* from,
                       const TensorLayout& to_layout, void* to) = 0;

  // The largest number of samples for which one sample's maps of `bytes_per_sample` stay in the
  // cache that this device's convolutions run from (L2); 0 when micro-batches gain nothing here.
  virtual std::int64_t micro_batch_hint(std::size_t bytes_per_sample) const = 0;
};

// oneDNN and own kernels for a CPU device, which must outlive the backend.
std::unique_ptr<OpBackend> make_onednn_backend(Device& device);

// Plain loops without layouts or threads: the meaning of every operation, for tests.
std::unique_ptr<OpBackend> make_reference_backend();

// Versions of the libraries behind the operations, by name ("onednn": "2.6.3").
std::map<std::string, std::string> library_versions();

}  // namespace ddpbench::ops
