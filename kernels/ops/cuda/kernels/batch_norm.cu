// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A block has a piece of a sample, some pixels of some channels. Its threads lie over neighbouring
// addresses: channels-last over vectors of channels and then pixels, else over the pixels of one
// channel. Where pieces end depends on the sample's shape and type, and on whether its maps may be
// read as vectors, which all maps of a network may.
#include "kernels/ops/cuda/kernels/batch_norm.h"

#include <cmath>

#include "kernels/ops/cuda/kernels/batch_norm.cuh"

namespace ddpbench::ops::cuda {
namespace {

// ---- sums over pieces ----

// Sums x and x^2. A thread sums deviations from its first value, so nothing cancels where a mean is
// far from 0; what it hands on is its mean and its squared deviations (Chan, Golub and LeVeque,
// "Updating formulae and a pairwise algorithm for computing sample variances", 1979).
template <typename T, std::uint32_t kWidth>
struct SumValues : SummedPieces<SumValues<T, kWidth>, T, kWidth> {
  using Shared = PieceSums<kWidth>;

  const T* x;

  __host__ __device__ static void add(const Shared& shared, std::uint32_t at, std::uint32_t count,
                                      double& first, double& second) {
    const double mean = shared.first[at];
    first += count * mean;
    second += shared.second[at] + count * mean * mean;
  }

  __host__ __device__ void sum_thread(const Line& line, Shared& shared,
                                      std::uint32_t thread) const {
    float pivot[kWidth], sum[kWidth] = {}, square[kWidth] = {};
    load(x + line.at, pivot);
    this->for_batches(line, [&](auto rows, std::uint32_t at) {
      constexpr std::uint32_t kRows = decltype(rows)::value;
      float values[kRows][kWidth];
      this->template read_rows<kRows>(x, at, values);
      DDPBENCH_UNROLL
      for (std::uint32_t r = 0; r < kRows; ++r) {
        DDPBENCH_UNROLL
        for (std::uint32_t k = 0; k < kWidth; ++k) {
          const float deviation = values[r][k] - pivot[k];
          sum[k] += deviation;
          square[k] += deviation * deviation;
        }
      }
    });
    const float share = 1.0F / static_cast<float>(line.count);
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kWidth; ++k) {
      const float rest = square[k] - sum[k] * sum[k] * share;
      shared.first[thread * kWidth + k] = pivot[k] + sum[k] * share;
      shared.second[thread * kWidth + k] = rest < 0 ? 0 : rest;  // NaN stays
    }
  }
};

// The blocks of gradients that a multiprocessor holds at once: as many as fit without spills.
template <std::uint32_t kWidth>
inline constexpr int kGradientBlocks = kWidth > 4 ? 2 : 3;

// Sums g and g (x - mean).
template <typename T, std::uint32_t kWidth>
struct SumGradients : SummedPieces<SumGradients<T, kWidth>, T, kWidth> {
  using Shared = PieceSums<kWidth>;
  static constexpr int kBlocksAtOnce = kGradientBlocks<kWidth>;

  GradientLines<T, kWidth> lines;
  T* rectified;

  __host__ __device__ static void add(const Shared& shared, std::uint32_t at, std::uint32_t,
                                      double& first, double& second) {
    first += shared.first[at];
    second += shared.second[at];
  }

  __host__ __device__ void sum_thread(const Line& line, Shared& shared,
                                      std::uint32_t thread) const {
    const ChannelFactors<kWidth> by(lines.by, line.channel);
    float sum[kWidth] = {}, product[kWidth] = {};
    this->for_batches(line, [&](auto rows, std::uint32_t at) {
      constexpr std::uint32_t kRows = decltype(rows)::value;
      float x[kRows][kWidth], g[kRows][kWidth];
      lines.template read<kRows>(*this, by, at, x, g);
      DDPBENCH_UNROLL
      for (std::uint32_t r = 0; r < kRows; ++r) {
        if (rectified != nullptr) store(rectified + at + r * this->step, g[r]);
        DDPBENCH_UNROLL
        for (std::uint32_t k = 0; k < kWidth; ++k) {
          sum[k] += g[r][k];
          product[k] += g[r][k] * (x[r][k] - by.mean[k]);
        }
      }
    });
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kWidth; ++k) {
      shared.first[thread * kWidth + k] = sum[k];
      shared.second[thread * kWidth + k] = product[k];
    }
  }
};

// ---- passes ----

template <typename T, std::uint32_t kWidth>
struct Normalize : NormPieces<T, kWidth> {
  static constexpr int kPhases = 1;
  struct Shared {};

  const T *x, *addend;
  T* y;
  Affine by;
  bool relu;

  __host__ __device__ void operator()(int, Shared&, std::uint32_t block,
                                      std::uint32_t thread) const {
    const Line line = this->line_of(this->piece_of(block), thread);
    if (line.count == 0) return;
    const ChannelFactors<kWidth> factors(by, line.channel);
    this->for_batches(line, [&](auto rows, std::uint32_t at) {
      constexpr std::uint32_t kRows = decltype(rows)::value;
      float values[kRows][kWidth], more[kRows][kWidth] = {};
      this->template read_rows<kRows>(x, at, values);
      if (addend != nullptr) this->template read_rows<kRows>(addend, at, more);
      DDPBENCH_UNROLL
      for (std::uint32_t r = 0; r < kRows; ++r) {
        DDPBENCH_UNROLL
        for (std::uint32_t k = 0; k < kWidth; ++k) {
          float value = factors.normalized(k, values[r][k]);
          if (addend != nullptr) value += more[r][k];
          values[r][k] = relu ? ops::relu(value) : value;
        }
        store(y + at + r * this->step, values[r]);
      }
    });
  }
};

template <typename T, std::uint32_t kWidth>
struct InputGradient : NormPieces<T, kWidth> {
  static constexpr int kPhases = 1, kBlocksAtOnce = kGradientBlocks<kWidth>;
  struct Shared {};

  GradientLines<T, kWidth> lines;
  const float* factors;  // [2][channels]
  T* dx;

  __host__ __device__ void operator()(int, Shared&, std::uint32_t block,
                                      std::uint32_t thread) const {
    const Line line = this->line_of(this->piece_of(block), thread);
    if (line.count == 0) return;
    const ChannelFactors<kWidth> by(lines.by, line.channel);
    float shift[kWidth], slope[kWidth];
    read_channels(factors, line.channel, shift);
    read_channels(factors + this->channels, line.channel, slope);
    this->for_batches(line, [&](auto rows, std::uint32_t at) {
      constexpr std::uint32_t kRows = decltype(rows)::value;
      float x[kRows][kWidth], g[kRows][kWidth];
      lines.template read<kRows>(*this, by, at, x, g);
      DDPBENCH_UNROLL
      for (std::uint32_t r = 0; r < kRows; ++r) {
        DDPBENCH_UNROLL
        for (std::uint32_t k = 0; k < kWidth; ++k) {
          g[r][k] = g[r][k] * by.scale[k] + ((x[r][k] - by.mean[k]) * slope[k] + shift[k]);
        }
        store(dx + at + r * this->step, g[r]);
      }
    });
  }
};

// ---- what is made of a channel's two sums ----

struct MakeStatistics {
  Statistics to;
  double values, eps;  // values: of a channel in all parts

  __host__ __device__ void operator()(std::uint32_t c, double sum, double square) const {
    if (to.mean == nullptr) return;  // the sums are kept, for those of all parts
    const double mean = sum / values;
    double variance = square / values - mean * mean;
    if (variance < 0) variance = 0;  // rounding
    to.mean[c] = static_cast<float>(mean);
    to.inv_std[c] = static_cast<float>(1 / sqrt(variance + eps));
    move(to.running_mean[c], mean);
    move(to.running_var[c], variance * values / (values - 1));
    if (c == 0) ++*to.batches;
  }
  __host__ __device__ void move(float& running, double value) const {
    running = static_cast<float>((1 - to.momentum) * running + to.momentum * value);
  }
};

// With G the sum of g and D that of g (x - mean), all over n values:
// dx = w inv_std (g - G / n - (x - mean) inv_std^2 D / n).
struct MakeGradients {
  ParameterGradients to;
  Affine by;
  double values;
  std::uint32_t channels;
  float* factors;  // null: not wanted

  __host__ __device__ void operator()(std::uint32_t c, double sum, double product) const {
    const double inverse = by.inv_std[c];
    add(to.weight, c, static_cast<float>(product * inverse));
    add(to.bias, c, static_cast<float>(sum));
    if (factors == nullptr) return;
    const double scale = (by.weight == nullptr ? 1 : by.weight[c]) * inverse;
    factors[c] = static_cast<float>(-scale * sum / values);
    factors[channels + c] = static_cast<float>(-scale * inverse * inverse * product / values);
  }
  __host__ __device__ void add(float* gradient, std::uint32_t c, float value) const {
    if (gradient != nullptr) gradient[c] = to.accumulate ? gradient[c] + value : value;
  }
};

// Finishes a channel, and keeps its sums where `own` is not null.
template <typename Finish>
struct FinishPart {
  double* own;
  std::uint32_t channels;
  Finish finish;

  __host__ __device__ void operator()(std::uint32_t c, const double (&sums)[2]) const {
    if (own != nullptr) {
      own[c] = sums[0];
      own[channels + c] = sums[1];
    }
    finish(c, sums[0], sums[1]);
  }
};

// ---- launches ----

double values_of(const NormShape& shape, std::uint32_t parts = 1) {
  return static_cast<double>(shape.samples) * shape.pixels * parts;
}

// Calls set_up(body) with the body's pieces set, for the widest vectors that the shape allows, and
// launches it.
template <template <typename, std::uint32_t> typename Body, typename Run>
cudaError_t over_pieces(const NormShape& shape, cudaStream_t stream, const Run& set_up) {
  return with_element_type(shape.type, [&]<typename T>(T) {
    const auto launch = [&](auto body) {
      body.divide(shape);
      set_up(body);
      return for_each_block(body.blocks(shape.samples), stream, body);
    };
    constexpr std::uint32_t kWidth = kVectorOf<T>;
    const bool vectors = shape.channels_last && shape.channels % kWidth == 0;
    return vectors ? launch(Body<T, kWidth>{}) : launch(Body<T, 1>{});
  });
}

template <typename T, std::uint32_t kWidth>
void set_lines(GradientLines<T, kWidth>& lines, const NormGradient& args, bool again) {
  lines.x = static_cast<const T*>(args.x);
  lines.by = args.by;
  if (again && args.rectified != nullptr) {
    lines.gradient = static_cast<const T*>(args.rectified);
    return;
  }
  lines.gradient = static_cast<const T*>(args.grad_output);
  lines.output = args.relu ? static_cast<const T*>(args.output) : nullptr;
  lines.from_x = args.relu && args.output == nullptr;
}

// Adds up a matrix of sums, [rows][2][channels]: kParts threads of a channel take the rows in turn.
template <std::uint32_t kColumns, std::uint32_t kParts, typename Finish>
cudaError_t add_up(const double* sums, std::uint32_t rows, std::uint32_t channels, ChannelSums* own,
                   const Finish& finish, cudaStream_t stream) {
  using Sum = AddUpRows<double, 2, kColumns, kParts, 4, FinishPart<Finish>>;
  return for_each_block(ceil_div(channels, kColumns), stream,
                        Sum{sums, rows, channels, {own, channels, finish}});
}

// Sums all pieces with a Body, whose maps `set_maps` sets, and adds the sums up.
template <template <typename, std::uint32_t> typename Body, typename SetMaps, typename Finish>
cudaError_t sum_channels(const NormShape& shape, void* workspace, ChannelSums* own,
                         const SetMaps& set_maps, const Finish& finish, cudaStream_t stream) {
  auto* const sums = static_cast<double*>(workspace);
  std::uint32_t pieces = 0;
  const cudaError_t status = over_pieces<Body>(shape, stream, [&](auto& body) {
    pieces = body.pieces(shape.samples);
    body.sums = sums;
    set_maps(body);
  });
  if (status != cudaSuccess) return status;
  // Few columns a block, since a layer of few channels has most pieces.
  return add_up<8, 64>(sums, pieces, shape.channels, own, finish, stream);
}

// A thread a channel, in the order of the parts: all parts get the same bits.
template <typename Finish>
cudaError_t join_parts(const NormShape& shape, std::uint32_t parts, const ChannelSums* all,
                       const Finish& finish, cudaStream_t stream) {
  return add_up<256, 1>(all, parts, shape.channels, nullptr, finish, stream);
}

}  // namespace

std::size_t norm_workspace_bytes(const NormShape& shape) {
  return std::size_t{2} * sizeof(double) * piece_count(shape) * shape.channels;
}

cudaError_t take_statistics(const NormShape& shape, const void* x, void* workspace,
                            const Statistics& to, ChannelSums* own, cudaStream_t stream) {
  const auto set_maps = [&](auto& body) { body.x = static_cast<decltype(body.x)>(x); };
  const MakeStatistics finish{own == nullptr ? to : Statistics{}, values_of(shape), shape.eps};
  return sum_channels<SumValues>(shape, workspace, own, set_maps, finish, stream);
}

cudaError_t join_statistics(const NormShape& shape, std::uint32_t parts, const ChannelSums* all,
                            const Statistics& to, cudaStream_t stream) {
  return join_parts(shape, parts, all, MakeStatistics{to, values_of(shape, parts), shape.eps},
                    stream);
}

cudaError_t normalize(const NormShape& shape, const Normalized& args, cudaStream_t stream) {
  return over_pieces<Normalize>(shape, stream, [&](auto& body) {
    body.x = static_cast<decltype(body.x)>(args.x);
    body.addend = static_cast<decltype(body.x)>(args.addend);
    body.y = static_cast<decltype(body.y)>(args.y);
    body.by = args.by;
    body.relu = args.relu;
  });
}

cudaError_t sum_gradients(const NormShape& shape, const NormGradient& args, void* workspace,
                          const ParameterGradients& gradients, float* factors, ChannelSums* own,
                          cudaStream_t stream) {
  const auto set_maps = [&](auto& body) {
    set_lines(body.lines, args, false);
    body.rectified = static_cast<decltype(body.rectified)>(args.rectified);
  };
  const MakeGradients finish{gradients, args.by, values_of(shape), shape.channels,
                             own == nullptr ? factors : nullptr};
  return sum_channels<SumGradients>(shape, workspace, own, set_maps, finish, stream);
}

cudaError_t join_gradients(const NormShape& shape, std::uint32_t parts, const ChannelSums* all,
                           const Affine& by, float* factors, cudaStream_t stream) {
  const MakeGradients finish{{}, by, values_of(shape, parts), shape.channels, factors};
  return join_parts(shape, parts, all, finish, stream);
}

cudaError_t input_gradient(const NormShape& shape, const NormGradient& args, const float* factors,
                           void* dx, cudaStream_t stream) {
  return over_pieces<InputGradient>(shape, stream, [&](auto& body) {
    set_lines(body.lines, args, true);
    body.factors = factors;
    body.dx = static_cast<decltype(body.dx)>(dx);
  });
}

}  // namespace ddpbench::ops::cuda
