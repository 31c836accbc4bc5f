// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/ops/cuda/library/context.h"

namespace ddpbench::ops::cuda {

// A stream for the time of a search. cuDNN keeps no stream that is gone.
class SearchStream {
 public:
  explicit SearchStream(const Context& context)
      : context_(context), stream_(context.device.make_stream()), native_(context.use(*stream_)) {}
  ~SearchStream() { static_cast<void>(cudnnSetStream(context_.cudnn, nullptr)); }
  SearchStream(const SearchStream&) = delete;
  SearchStream& operator=(const SearchStream&) = delete;
  Stream& stream() { return *stream_; }
  cudaStream_t native() const { return native_; }

 private:
  const Context& context_;
  std::unique_ptr<Stream> stream_;
  cudaStream_t native_;
};

}  // namespace ddpbench::ops::cuda
