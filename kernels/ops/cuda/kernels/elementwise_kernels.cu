// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Element by element: activations, add, bias, conversion of types, dropout, and the test pattern.
#include "kernels/ops/cuda/kernels/elementwise_kernels.h"

#include <algorithm>
#include <limits>

#include "kernels/ops/cuda/kernels/launch.cuh"
#include "kernels/ops/cuda/kernels/number.cuh"

namespace ddpbench::ops::cuda {
namespace {

// `Function` makes one element from one of each input.
template <typename T, typename Function, std::uint32_t kInputs>
struct Map {
  const T* x[kInputs];
  T* y;

  template <std::uint32_t kCount>
  __host__ __device__ void take(std::uint32_t first) const {
    float from[kInputs][kCount], to[kCount];
    DDPBENCH_UNROLL
    for (std::uint32_t j = 0; j < kInputs; ++j) load(x[j] + first, from[j]);
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kCount; ++k) {
      float operands[kInputs];
      DDPBENCH_UNROLL
      for (std::uint32_t j = 0; j < kInputs; ++j) operands[j] = from[j][k];
      to[k] = Function::of(operands);
    }
    store(y + first, to);
  }
};

template <Activation kKind>
struct Activate {
  __host__ __device__ static float of(const float (&x)[1]) { return ops::activate(kKind, x[0]); }
};
template <Activation kKind>
struct ActivationGradient {  // from y and dy
  __host__ __device__ static float of(const float (&x)[2]) {
    return activation_gradient(kKind, x[0], x[1]);
  }
};
struct Sum {
  __host__ __device__ static float of(const float (&x)[2]) { return x[0] + x[1]; }
};

template <typename Function, typename... Inputs>
cudaError_t map(DataType type, void* y, std::uint32_t count, cudaStream_t stream,
                const Inputs*... x) {
  return with_element_type(type, [&]<typename T>(T) {
    const Map<T, Function, sizeof...(Inputs)> body{{static_cast<const T*>(x)...},
                                                   static_cast<T*>(y)};
    return for_elements<kVectorOf<T>>(count, are_vector_aligned(y, x...), stream, body);
  });
}

// A row has a whole number of vectors where a thread takes one.
template <typename T, std::uint32_t kCount>
struct AddBias {
  BiasRelu args;
  Divisor pieces;  // of a row
  __host__ __device__ void operator()(std::uint32_t i) const {
    T* const y = static_cast<T*>(args.y) + i * kCount;
    std::uint32_t row = i;
    const std::uint32_t column = pieces.split(row) * kCount;
    float value[kCount];
    load(y, value);
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kCount; ++k) {
      if (args.bias != nullptr) value[k] += args.bias[column + k];
      if (args.relu) value[k] = relu(value[k]);
    }
    store(y, value);
  }
};

template <typename From, typename To>
struct ConvertType {
  const From* from;
  To* to;
  bool accumulate;

  template <std::uint32_t kCount>
  __host__ __device__ void take(std::uint32_t first) const {
    float value[kCount], before[kCount] = {};
    load(from + first, value);
    if (accumulate) load(to + first, before);
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kCount; ++k)
      value[k] = accumulate ? value[k] + before[k] : value[k];
    store(to + first, value);
  }
};

constexpr auto kLanes = static_cast<std::uint32_t>(kMaskLanes);
constexpr auto kGroup = static_cast<std::uint32_t>(kMaskGroup);

// A thread takes the four elements of a counter, 16 elements apart: threads side by side touch
// elements side by side.
template <typename T>
struct DrawMask {
  Dropout args;
  Divisor counters, part;  // counters of a sample, samples of a part

  __host__ __device__ void operator()(std::uint32_t i) const {
    std::uint32_t sample = i;
    const std::uint32_t counter = counters.split(sample);
    std::uint32_t before = static_cast<std::uint32_t>(args.draw.first_sample) + sample;
    const std::uint32_t in_part = part.split(before);
    const std::uint32_t place = static_cast<std::uint32_t>(args.draw.places.first) + before +
                                in_part * static_cast<std::uint32_t>(args.draw.places.parts);
    const MaskWords words = draw_words(args.mask, counter, place, *args.draw.step);
    std::uint32_t element = counter / kLanes * kGroup + counter % kLanes;
    DDPBENCH_UNROLL
    for (std::uint32_t w = 0; w < kMaskWords; ++w, element += kLanes) {
      if (element >= args.elements) return;
      const std::uint32_t at = sample * args.elements + element;
      const float value = to_float(static_cast<const T*>(args.x)[at]);
      static_cast<T*>(args.y)[at] = from_float<T>(value * args.mask.factor(words.word[w]));
    }
  }
};

struct Increment {
  std::int64_t* counter;
  __host__ __device__ void operator()(std::uint32_t) const { ++*counter; }
};

template <typename T>
struct CopyPieces {
  PieceCopy args;
  Divisor length, image_rows;
  __host__ __device__ void operator()(std::uint32_t i) const {
    std::uint32_t row = i;
    const std::uint32_t at = length.split(row), image = image_rows.quotient(row);
    static_cast<T*>(args.to)[row * args.to_pitch + image * args.to_skip + at] =
        static_cast<const T*>(args.from)[row * args.from_pitch + image * args.from_skip + at];
  }
};

template <typename T>
struct Pattern {
  T* data;
  __host__ __device__ void operator()(std::uint32_t i) const {
    // Knuth's multiplicative hash; its upper 16 bits are exact in a float.
    const std::uint32_t hash = i * 2654435761U;
    data[i] = from_float<T>(static_cast<float>(hash >> 16) / 32768.0F - 1.0F);
  }
};

constexpr std::uint32_t kTile = 32;
constexpr std::uint32_t kRowThreads = 8;
constexpr std::uint32_t kSteps = kTile / kRowThreads;  // elements of a thread

template <typename From, typename To>
struct TransposeTiles {
  static constexpr std::uint32_t kThreads = kTile * kRowThreads;
  static constexpr int kPhases = 2;
  struct Shared {
    float tile[kTile][kTile + 1];  // the odd length keeps a column's elements in different banks
  };

  Transpose args;
  Divisor row_tiles, column_tiles;

  __host__ __device__ void operator()(int phase, Shared& shared, std::uint32_t block,
                                      std::uint32_t thread) const {
    const std::uint32_t lane = thread % kTile, first = thread / kTile;
    std::uint32_t matrix = block;
    const std::uint32_t column = column_tiles.split(matrix) * kTile;
    const std::uint32_t row = row_tiles.split(matrix) * kTile;
    matrix *= args.rows * args.columns;
    if (phase == 0 && column + lane < args.columns) {
      const auto* const from = static_cast<const From*>(args.from) + matrix + column + lane;
      float values[kSteps];
      DDPBENCH_UNROLL
      for (std::uint32_t i = 0; i < kSteps; ++i) {
        const std::uint32_t at = row + first + i * kRowThreads;
        values[i] = at < args.rows ? to_float(from[at * args.columns]) : 0.0F;
      }
      DDPBENCH_UNROLL
      for (std::uint32_t i = 0; i < kSteps; ++i) {
        shared.tile[first + i * kRowThreads][lane] = values[i];
      }
    }
    if (phase == 1 && row + lane < args.rows) {
      auto* const to = static_cast<To*>(args.to) + matrix + row + lane;
      DDPBENCH_UNROLL
      for (std::uint32_t i = 0; i < kSteps; ++i) {
        const std::uint32_t k = first + i * kRowThreads, at = column + k;
        if (at < args.columns) to[at * args.rows] = from_float<To>(shared.tile[lane][k]);
      }
    }
  }
};

}  // namespace

cudaError_t activate(Activation kind, DataType type, const void* x, void* y, std::uint32_t count,
                     cudaStream_t stream) {
  return with_activation(kind, [&](auto known) {
    return map<Activate<decltype(known)::value>>(type, y, count, stream, x);
  });
}

cudaError_t activation_backward(Activation kind, DataType type, const void* y, const void* dy,
                                void* dx, std::uint32_t count, cudaStream_t stream) {
  return with_activation(kind, [&](auto known) {
    return map<ActivationGradient<decltype(known)::value>>(type, dx, count, stream, y, dy);
  });
}

cudaError_t add(DataType type, const void* a, const void* b, void* sum, std::uint32_t count,
                cudaStream_t stream) {
  return map<Sum>(type, sum, count, stream, a, b);
}

cudaError_t bias_relu(const BiasRelu& args, std::uint32_t count, cudaStream_t stream) {
  return with_element_type(args.type, [&]<typename T>(T) {
    constexpr std::uint32_t kVector = kVectorOf<T>;
    if (args.columns % kVector == 0 && are_vector_aligned(args.y)) {
      return for_each(count / kVector, stream,
                      AddBias<T, kVector>{args, Divisor(args.columns / kVector)});
    }
    return for_each(count, stream, AddBias<T, 1>{args, Divisor(args.columns)});
  });
}

cudaError_t convert_type(DataType from_type, const void* from, DataType to_type, void* to,
                         bool accumulate, std::uint32_t count, cudaStream_t stream) {
  return with_element_type(from_type, [&]<typename From>(From) {
    return with_element_type(to_type, [&]<typename To>(To) {
      // A thread takes four elements: 16 bytes of the wider type.
      return for_elements<4>(
          count, are_vector_aligned(from, to), stream,
          ConvertType<From, To>{static_cast<const From*>(from), static_cast<To*>(to), accumulate});
    });
  });
}

cudaError_t copy_pieces(const PieceCopy& args, cudaStream_t stream) {
  return with_element_type(args.type, [&]<typename T>(T) {
    return for_each(args.rows * args.length, stream,
                    CopyPieces<T>{args, Divisor(args.length), Divisor(args.image_rows)});
  });
}

cudaError_t dropout(const Dropout& args, cudaStream_t stream) {
  const std::uint32_t counters = ceil_div(args.elements, kGroup) * kLanes;
  const auto part = static_cast<std::uint32_t>(
      std::min<std::int64_t>(args.draw.places.part, std::numeric_limits<std::int32_t>::max()));
  return with_element_type(args.type, [&]<typename T>(T) {
    return for_each(args.samples * counters, stream,
                    DrawMask<T>{args, Divisor(counters), Divisor(part)});
  });
}

cudaError_t increment(std::int64_t* counter, cudaStream_t stream) {
  return for_each(1, stream, Increment{counter});
}

cudaError_t fill_with_pattern(DataType type, void* data, std::uint32_t count, cudaStream_t stream) {
  return with_element_type(type, [&]<typename T>(T) {
    return for_each(count, stream, Pattern<T>{static_cast<T*>(data)});
  });
}

cudaError_t transpose(const Transpose& args, cudaStream_t stream) {
  // With one row or column only the type changes.
  if (args.rows == 1 || args.columns == 1) {
    return convert_type(args.from_type, args.from, args.to_type, args.to, false,
                        args.batch * args.rows * args.columns, stream);
  }
  return with_element_type(args.from_type, [&]<typename From>(From) {
    return with_element_type(args.to_type, [&]<typename To>(To) {
      const TransposeTiles<From, To> body{args, Divisor(ceil_div(args.rows, kTile)),
                                          Divisor(ceil_div(args.columns, kTile))};
      return for_each_block(args.batch * body.row_tiles.divisor() * body.column_tiles.divisor(),
                            stream, body);
    });
  });
}

}  // namespace ddpbench::ops::cuda
