// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The convolutions that the kernels of few_channels.h are for.
#pragma once

#include <cstdint>

#include "kernels/ops/window2d.h"
#include "kernels/runtime/data_type.h"

namespace ddpbench::ops::cuda {

// Images and outputs are channels-last and of `type`, weights [out, kernel, kernel, channels] fp32.
struct FewChannelShape {
  std::uint32_t batch = 0, channels = 0, in_h = 0, in_w = 0;
  std::uint32_t out_channels = 0, out_h = 0, out_w = 0;
  KernelWindow2d window;
  std::uint32_t pool = 1;  // 2: the output is the maximum of each 2 x 2 pixels, whole windows only
  DataType type = DataType::fp32;
  std::uint32_t multiprocessors = 0;  // of the GPU: they set the parts of gradients' sums
};

// Whether there are kernels: 3 x 3 windows over 1 channel (stride_w 1 or 2) or 3 channels (stride_w
// 1), and 5 x 5 windows over 1 (stride_w 1). Any stride_h, padding and number of outputs. With pool
// 2 only strides of 1.
inline bool has_few_channel_kernels(const FewChannelShape& s) {
  const KernelWindow2d& w = s.window;
  if (w.kernel_h != w.kernel_w || w.stride_w == 0) return false;
  if (s.pool != 1 && (s.pool != 2 || w.stride_h != 1 || w.stride_w != 1)) return false;
  if (w.kernel_h == 3 && s.channels == 1) return w.stride_w <= 2;
  return w.stride_w == 1 &&
         ((w.kernel_h == 3 && s.channels == 3) || (w.kernel_h == 5 && s.channels == 1));
}

}  // namespace ddpbench::ops::cuda
