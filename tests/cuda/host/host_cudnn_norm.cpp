// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// cuDNN's stand-in: batch normalisation over channels, sums in double precision.
#include <cmath>

#include "tests/cuda/host/host_cudnn.h"

using ddpbench::test::load;
using ddpbench::test::queue;
using ddpbench::test::scalar;
using ddpbench::test::store;

namespace {

using NormTensor = cudnnTensorStruct;

// Calls body(index) for all values of a channel.
template <typename Body>
void for_each_value(const NormTensor& x, int channel, const Body& body) {
  const long pixels = long{x.h} * x.w;
  for (long n = 0; n < x.n; ++n)
    for (long p = 0; p < pixels; ++p)
      body(x.channels_last ? (n * pixels + p) * x.c + channel : (n * x.c + channel) * pixels + p);
}

double values_of(const NormTensor& x) { return double(x.n) * x.h * x.w; }

bool same_maps(const NormTensor& a, const NormTensor& b) {
  return a.type == b.type && a.n == b.n && a.c == b.c && a.h == b.h && a.w == b.w &&
         a.channels_last == b.channels_last;
}

// Statistics and parameters have fp32 values beside maps of fp32 and of smaller types.
bool is_per_channel(const NormTensor& tensor, const NormTensor& x) {
  return tensor.type == CUDNN_DATA_FLOAT && tensor.n == 1 && tensor.c == x.c && tensor.h == 1 &&
         tensor.w == 1;
}

bool is_plain_result(const void* alpha, const void* beta) {
  return scalar(alpha) == 1 && scalar(beta) == 0;
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    cudnnTensorDescriptor_t x, const void* x_data, cudnnTensorDescriptor_t y, void* y_data,
    cudnnTensorDescriptor_t channels, const void* scale, const void* bias, double factor,
    void* running_mean, void* running_variance, double epsilon, void* saved_mean,
    void* saved_inverse) {
  if (mode != CUDNN_BATCHNORM_SPATIAL || !is_plain_result(alpha, beta) || !same_maps(*x, *y) ||
      !is_per_channel(*channels, *x) || epsilon < CUDNN_BN_MIN_EPSILON || values_of(*x) < 2 ||
      (running_mean == nullptr) != (running_variance == nullptr)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  queue(handle->stream, [=, maps = *x] {
    const auto floats = [](void* data) { return static_cast<float*>(data); };
    for (int c = 0; c < maps.c; ++c) {
      double mean = 0, squares = 0;
      for_each_value(maps, c, [&](long i) { mean += load(maps.type, x_data, i); });
      mean /= values_of(maps);
      for_each_value(maps, c, [&](long i) {
        const double deviation = load(maps.type, x_data, i) - mean;
        squares += deviation * deviation;
      });
      const auto move = [&](void* running, double value) {
        if (running == nullptr) return;  // nobody wants them
        floats(running)[c] = static_cast<float>((1 - factor) * floats(running)[c] + factor * value);
      };
      move(running_mean, mean);
      move(running_variance, squares / (values_of(maps) - 1));
      const double inverse = 1 / std::sqrt(squares / values_of(maps) + epsilon);
      floats(saved_mean)[c] = static_cast<float>(mean);
      floats(saved_inverse)[c] = static_cast<float>(inverse);
      for_each_value(maps, c, [&](long i) {
        const double normal = (load(maps.type, x_data, i) - mean) * inverse;
        store(maps.type, y_data, i,
              normal * static_cast<const float*>(scale)[c] + static_cast<const float*>(bias)[c]);
      });
    }
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    cudnnTensorDescriptor_t x, const void* x_data, cudnnTensorDescriptor_t y, void* y_data,
    cudnnTensorDescriptor_t channels, const void* scale, const void* bias, const void* mean,
    const void* variance, double epsilon) {
  if (mode != CUDNN_BATCHNORM_SPATIAL || !is_plain_result(alpha, beta) || !same_maps(*x, *y) ||
      !is_per_channel(*channels, *x) || epsilon < CUDNN_BN_MIN_EPSILON) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  queue(handle->stream, [=, maps = *x] {
    const auto at = [](const void* data, int c) { return static_cast<const float*>(data)[c]; };
    for (int c = 0; c < maps.c; ++c) {
      const double inverse = 1 / std::sqrt(at(variance, c) + epsilon);
      for_each_value(maps, c, [&](long i) {
        const double normal = (load(maps.type, x_data, i) - at(mean, c)) * inverse;
        store(maps.type, y_data, i, normal * at(scale, c) + at(bias, c));
      });
    }
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha_data, const void* beta_data,
    const void* alpha_parameters, const void* beta_parameters, cudnnTensorDescriptor_t x,
    const void* x_data, cudnnTensorDescriptor_t dy, const void* dy_data, cudnnTensorDescriptor_t dx,
    void* dx_data, cudnnTensorDescriptor_t channels, const void* scale, void* d_scale, void* d_bias,
    double epsilon, const void* saved_mean, const void* saved_inverse) {
  if (mode != CUDNN_BATCHNORM_SPATIAL || !is_plain_result(alpha_data, beta_data) ||
      scalar(alpha_parameters) != 1 || !same_maps(*x, *dy) || !same_maps(*x, *dx) ||
      !is_per_channel(*channels, *x) || epsilon < CUDNN_BN_MIN_EPSILON || dx_data == nullptr) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const float before = scalar(beta_parameters);
  queue(handle->stream, [=, maps = *x] {
    for (int c = 0; c < maps.c; ++c) {
      const double mean = static_cast<const float*>(saved_mean)[c];
      const double inverse = static_cast<const float*>(saved_inverse)[c];
      const auto normal = [&](long i) { return (load(maps.type, x_data, i) - mean) * inverse; };
      double sum = 0, product = 0;
      for_each_value(maps, c, [&](long i) {
        sum += load(maps.type, dy_data, i);
        product += load(maps.type, dy_data, i) * normal(i);
      });
      // Old values count only with a factor: they may be no numbers.
      const auto put = [&](void* data, double value) {
        float& result = static_cast<float*>(data)[c];
        result = static_cast<float>(before != 0 ? before * result + value : value);
      };
      put(d_scale, product);
      put(d_bias, sum);
      const double n = values_of(maps), by = static_cast<const float*>(scale)[c] * inverse;
      for_each_value(maps, c, [&](long i) {
        store(maps.type, dx_data, i,
              by * (load(maps.type, dy_data, i) - sum / n - normal(i) * product / n));
      });
    }
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
