// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// OpBackend makes the operations of one kind of device. A new kind of device implements this once.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "kernels/ops/encoding.h"
#include "kernels/ops/flat_ops.h"
#include "kernels/ops/op.h"
#include "kernels/ops/optimizer.h"
#include "kernels/runtime/device.h"

namespace ddpbench::ops {

class OpBackend {
 public:
  virtual ~OpBackend() = default;

  virtual std::string name() const = 0;  // "onednn", "reference", "cuda"

  // Plans an operation for fixed shapes. Throws ConfigError for shapes that make no sense (empty
  // output, no input), DeviceError when the library refuses or the backend has no such operation.
  std::unique_ptr<Op> make(const OpDesc& desc);

  // What stands around a network (flat_ops.h, optimizer.h). Each call queues its work.
  //
  // Throws ConfigError as check_loss() does.
  virtual void loss(Stream& stream, const CrossEntropyDesc& desc, const LossArgs& args) = 0;
  // Bytes of device memory that a call of that loss needs as LossArgs::workspace.
  virtual std::size_t loss_workspace_bytes(const CrossEntropyDesc& /*desc*/) const { return 0; }
  virtual void update(Stream& stream, const OptimizerArgs& args) = 0;
  // Sets scale->overflow where one of the gradients is not finite; else leaves it as it is. Reads
  // the gradients once.
  virtual void find_overflow(Stream& stream, const float* gradients, std::size_t count,
                             LossScale* scale) = 0;
  // Queues end_scaled_step(*scale); this one is as increment() says.
  virtual void end_scaled_step(Stream& /*stream*/, LossScale* scale) {
    ops::end_scaled_step(*scale);
  }
  // Mean of several buffers, element by element: out = (in_0 + in_1 + ... + in_k-1) / k. The sum
  // has that order, so that equal inputs give bit-equal results. It reads k words and writes 1 word
  // an element. `out` may be one of the inputs. REQUIRES: inputs is not empty.
  virtual void mean(Stream& stream, std::span<const float* const> inputs, float* out,
                    std::size_t count) = 0;
  virtual void encode(Stream& stream, const EncodeArgs& args) = 0;
  virtual void decode(Stream& stream, const DecodeArgs& args) = 0;
  virtual void orthonormalize(Stream& stream, const OrthonormalArgs& args) = 0;
  // Throws ConfigError unless shape and normalisation are valid. Indices are not checked.
  virtual void gather(Stream& stream, const GatherArgs& args) = 0;

  // Queues ++*counter. `counter` is in device memory; this one is for devices whose memory the host
  // reaches and whose streams run inline.
  virtual void increment(Stream& /*stream*/, std::int64_t* counter) { ++*counter; }

  // Conversion between layouts of equal element count, in device memory; allocates, blocks.
  virtual void convert(const TensorLayout& from_layout, const void* from,
                       const TensorLayout& to_layout, void* to) = 0;

  // The most samples whose maps, of `bytes_per_sample` each, stay in the cache that convolutions
  // run from (L2). 0 when micro-batches gain nothing here.
  std::int64_t micro_batch_hint(std::size_t bytes_per_sample) const;

  // From now on it takes at once the batch of several devices and gives each sample the bits that
  // its own device gives it.
  //
  // A library chooses by the batch how it computes: Winograd or not, the order of a sum. Behind a
  // ReLU such a rounding decides now and then whether a value is cut, which changes a whole term of
  // a gradient. So convolutions and linear layers are planned for the batch of one device,
  // `samples`, and run for each part in turn; their parameters' gradients add up in the order of
  // the parts. All else computes a sample alone, or sums in double (batch norm), and takes the
  // whole batch.
  //
  // Batches that are no larger multiple of `samples` are planned as before; so are operations whose
  // slices would not begin at multiples of `alignment` bytes. REQUIRES: both > 0.
  void slice(std::int64_t samples, std::size_t alignment = 1);

 protected:
  // What the public functions of these names say, for a batch that is not divided.
  virtual std::unique_ptr<Op> make_whole(const OpDesc& desc) = 0;
  virtual std::int64_t whole_hint(std::size_t /*bytes_per_sample*/) const { return 0; }

 private:
  std::int64_t slices_of(OpDesc desc) const;

  std::int64_t slice_samples_ = 0;  // 0: nothing is divided
  std::size_t slice_alignment_ = 1;
};

// oneDNN and own kernels for a CPU device, which must outlive the backend. Activations and their
// gradients are fp32 or bf16, all else is fp32. Results repeat bit by bit, with AMX in bf16 if
// `deterministic`. Throws UnavailableError (why_no_cpu_bf16).
std::unique_ptr<OpBackend> make_onednn_backend(Device& device,
                                               DataType activations = DataType::fp32,
                                               bool deterministic = false);

// Why CPU devices do not compute in bf16 here; empty: they do. If oneDNN would use AMX, this
// requests the permission for AMX tiles, for the rest of the process.
std::string why_no_cpu_bf16();
// Whether CPU devices may compute in bf16 in AMX's tiles here.
bool cpu_bf16_uses_amx();

// Plain loops without layouts or threads. They define every operation, for tests.
std::unique_ptr<OpBackend> make_reference_backend();

// The versions of the libraries behind the operations, by name ("onednn": "2.6.3").
std::map<std::string, std::string> library_versions();

}  // namespace ddpbench::ops
