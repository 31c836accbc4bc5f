// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// ReferenceWeights: the parameters before and after the verification's K steps, as the reference
// process computed them. Verified ranks map this memory and compare their weights with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/nn/safetensors.h"
#include "kernels/runtime/shared_memory.h"

namespace ddpbench::bench {

// The result of one replica's verification.
struct VerificationResult {
  double max_relative_error = 0;  // max over tensors of |dw - dw_ref|_2 / |dw_ref|_2
  std::string worst_tensor;
  std::uint64_t weights_hash = 0;  // equal hashes: bit-equal parameters
};

class ReferenceWeights {
 public:
  static ReferenceWeights create(std::int64_t parameter_count);
  static ReferenceWeights adopt(int fd);
  static ReferenceWeights open(const std::string& handle);

  int fd() const { return memory_.fd(); }
  std::string handle() const { return memory_.handle(); }
  // Called by the reference process; sets `complete` last.
  void store(const std::vector<nn::NamedTensor>& before, const std::vector<nn::NamedTensor>& after);
  bool complete() const;
  // Throws VerificationError when the starting weights differ. A tensor that the reference left
  // unchanged has an infinite error unless it is unchanged here too.
  VerificationResult compare(const std::vector<nn::NamedTensor>& before,
                             const std::vector<nn::NamedTensor>& after) const;

 private:
  explicit ReferenceWeights(SharedMemory memory) : memory_(std::move(memory)) {}
  SharedMemory memory_;
};

}  // namespace ddpbench::bench
