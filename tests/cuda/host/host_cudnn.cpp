// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// cuDNN's stand-in: convolutions over channels-last tensors, sums in double precision.
#include <cudnn.h>

#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/cuda/host/host_cudnn.h"

using ddpbench::test::load;
using ddpbench::test::queue;
using ddpbench::test::scalar;
using ddpbench::test::store;

struct cudnnFilterStruct {
  cudnnDataType_t type;
  int k, c, h, w;
};
struct cudnnConvolutionStruct {
  int pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w;
  cudnnMathType_t math;
  int groups = 1;
};
struct cudnnActivationStruct {
  cudnnActivationMode_t mode;
  cudnnNanPropagation_t nan;
  double bound;
};

namespace {

using Tensor = cudnnTensorStruct;
using Filter = cudnnFilterStruct;
using Convolution = cudnnConvolutionStruct;

// The factors of products, converted once, since each is in many. Tensor cores round floats.
std::vector<double> factors(const Convolution& conv, cudnnDataType_t type, const void* data,
                            long count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (long i = 0; i < count; ++i) {
    const float value = load(type, data, i);
    values[static_cast<std::size_t>(i)] =
        conv.math == CUDNN_FMA_MATH ? value : ddpbench::test::round_to_tf32(value);
  }
  return values;
}

void store_all(cudnnDataType_t type, void* data, const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    store(type, data, static_cast<long>(i), values[i]);
  }
}

// Calls body(index into x, into w, into y) for every run of w.c products: one element of y, and
// elements of x and w that follow one another. Channels are innermost, where compilers vectorize.
template <typename Body>
void for_each_run(const Tensor& x, const Filter& w, const Convolution& conv, const Tensor& y,
                  const Body& body) {
  for (int n = 0; n < y.n; ++n)
    for (int i = 0; i < y.h; ++i)
      for (int j = 0; j < y.w; ++j)
        for (int k = 0; k < y.c; ++k) {
          const int first = k / (y.c / conv.groups) * w.c;  // input channel of its group
          for (int p = 0; p < w.h; ++p)
            for (int q = 0; q < w.w; ++q) {
              const int row = i * conv.stride_h - conv.pad_h + p * conv.dilation_h;
              const int column = j * conv.stride_w - conv.pad_w + q * conv.dilation_w;
              if (row < 0 || row >= x.h || column < 0 || column >= x.w) continue;
              body(((long{n} * x.h + row) * x.w + column) * x.c + first,
                   ((long{k} * w.h + p) * w.w + q) * w.c,
                   ((long{n} * y.h + i) * y.w + j) * y.c + k);
            }
        }
}

// sums[i] += factor * values[i] for each i below length.
void add_multiple(double* __restrict sums, double factor, const double* __restrict values,
                  int length) {
  for (int i = 0; i < length; ++i) sums[i] += factor * values[i];
}

long count(const Tensor& t) { return long{t.n} * t.c * t.h * t.w; }
long count(const Filter& f) { return long{f.k} * f.c * f.h * f.w; }

bool fits(const Tensor& x, const Filter& w, const Convolution& conv, const Tensor& y) {
  const int span_h = conv.dilation_h * (w.h - 1) + 1, span_w = conv.dilation_w * (w.w - 1) + 1;
  return x.channels_last && y.channels_last && x.type == y.type && x.type == w.type &&
         x.c == w.c * conv.groups && y.c == w.k && y.c % conv.groups == 0 && x.n == y.n &&
         y.h == (x.h + 2 * conv.pad_h - span_h) / conv.stride_h + 1 &&
         y.w == (x.w + 2 * conv.pad_w - span_w) / conv.stride_w + 1;
}

// Every algorithm of the stand-in needs a workspace, each of another size.
std::size_t workspace_of(int algorithm) { return 100 * static_cast<std::size_t>(algorithm + 1); }

// Begins every convolution. The workspace belongs to the call while it runs: its content is lost.
bool take_workspace(void* workspace, std::size_t bytes, int algorithm) {
  if (workspace == nullptr || bytes < workspace_of(algorithm)) return false;
  std::memset(workspace, 0xFF, bytes);
  return true;
}

// 0 is fastest but does not repeat; 1 and 3 do; 2 does not work. Sorted by time, as in cuDNN.
template <typename Performance>
cudnnStatus_t report(int* found, Performance* results, cudnnMathType_t math,
                     const std::array<int, 4>& by_time) {
  *found = 4;
  for (int place = 0; place < 4; ++place) {
    const int i = by_time[static_cast<std::size_t>(place)];
    Performance& result = results[place] = {};
    result.algo = static_cast<decltype(result.algo)>(i);
    result.status = i == 2 ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
    result.time = i == 2 ? -1.0F : static_cast<float>(1 + place);
    result.memory = workspace_of(i);
    result.determinism = i == 0 ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC;
    result.mathType = math;
  }
  return CUDNN_STATUS_SUCCESS;
}

// From one three searches to the next the faster repeatable algorithm changes. A deterministic
// network makes three.
template <typename Performance>
cudnnStatus_t report_search(int* found, Performance* results, cudnnMathType_t math) {
  const int search = ddpbench::test::algorithm_searches()++;
  const std::array by_time = search / 3 % 2 == 0 ? std::array{0, 1, 3, 2} : std::array{0, 3, 1, 2};
  if (ddpbench::test::misleading_searches() > 0) {
    --ddpbench::test::misleading_searches();
    report(found, results, math, {3, 1, 0, 2});
    for (int i = 0; i < *found; ++i) results[i].time *= 10;
    return CUDNN_STATUS_SUCCESS;
  }
  if (math != CUDNN_FMA_MATH) return report(found, results, math, by_time);
  // Also reports the default arithmetic, with another order and shorter times.
  report(found, results, CUDNN_DEFAULT_MATH, {3, 1, 0, 2});
  for (int i = 0; i < *found; ++i) results[i].time /= 100;
  report(found, results + *found, math, by_time);
  *found *= 2;
  return CUDNN_STATUS_SUCCESS;
}

// Reports without a search: the times are estimates, and the default is the requested arithmetic.
template <typename Performance>
cudnnStatus_t report_guess(int* found, Performance* results, cudnnMathType_t math) {
  return report(found, results, math == CUDNN_FMA_MATH ? CUDNN_DEFAULT_MATH : math, {0, 3, 1, 2});
}

// A search on memory that was never filled measures other work than the real one.
bool is_filled(cudnnDataType_t type, const void* data, long elements) {
  for (long i = 0; i < elements; ++i) {
    if (!std::isfinite(load(type, data, i))) return false;
  }
  return true;
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "CUDNN_STATUS_OF_THE_HOST"; }
void cudnnGetLastErrorString(char* message, size_t) { message[0] = '\0'; }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return *handle = new cudnnContext, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return delete handle, CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return handle->stream = stream, CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* d) {
  return *d = new Tensor{}, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t d) {
  return delete d, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t d, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  *d = {type, n, c, h, w, format == CUDNN_TENSOR_NHWC};
  const bool known = format == CUDNN_TENSOR_NHWC || format == CUDNN_TENSOR_NCHW;
  return known ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* d) {
  return *d = new Filter{}, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t d) {
  return delete d, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  *d = {type, k, c, h, w};
  return format == CUDNN_TENSOR_NHWC ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* d) {
  return *d = new Convolution{}, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t d) {
  return delete d, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t d, int pad_h, int pad_w,
                                              int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  *d = {pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, CUDNN_DEFAULT_MATH};
  if (dilation_h < 1 || dilation_w < 1) return CUDNN_STATUS_BAD_PARAM;
  const bool known = mode == CUDNN_CROSS_CORRELATION && compute == CUDNN_DATA_FLOAT;
  return known ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups) {
  if (groups < 1) return CUDNN_STATUS_BAD_PARAM;
  return d->groups = groups, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t math) {
  return d->math = math, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* d) {
  return *d = new cudnnActivationStruct{}, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t d) {
  return delete d, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t d,
                                           cudnnActivationMode_t mode, cudnnNanPropagation_t nan,
                                           double bound) {
  return *d = {mode, nan, bound}, CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t, cudnnConvolutionDescriptor_t,
    cudnnTensorDescriptor_t, cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  return *bytes = workspace_of(algorithm), CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
    cudnnTensorDescriptor_t, cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
  return *bytes = workspace_of(algorithm), CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
    cudnnFilterDescriptor_t, cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  return *bytes = workspace_of(algorithm), CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, const void* x_data, cudnnFilterDescriptor_t w,
    const void* w_data, cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t, void*, int,
    int* found, cudnnConvolutionFwdAlgoPerf_t* results, void*, size_t) {
  cudaStreamSynchronize(handle->stream);  // the algorithms run and are timed there
  if (!is_filled(x->type, x_data, count(*x))) return CUDNN_STATUS_BAD_PARAM;
  if (!is_filled(w->type, w_data, count(*w))) return CUDNN_STATUS_BAD_PARAM;
  return report_search(found, results, conv->math);
}
cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, const void* w_data, cudnnTensorDescriptor_t y,
    const void* dy, cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t, void*, int,
    int* found, cudnnConvolutionBwdDataAlgoPerf_t* results, void*, size_t) {
  cudaStreamSynchronize(handle->stream);  // the algorithms run and are timed there
  if (!is_filled(y->type, dy, count(*y))) return CUDNN_STATUS_BAD_PARAM;
  if (!is_filled(w->type, w_data, count(*w))) return CUDNN_STATUS_BAD_PARAM;
  return report_search(found, results, conv->math);
}
cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, const void* x_data, cudnnTensorDescriptor_t y,
    const void* dy, cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t, void*, int,
    int* found, cudnnConvolutionBwdFilterAlgoPerf_t* results, void*, size_t) {
  cudaStreamSynchronize(handle->stream);  // the algorithms run and are timed there
  if (!is_filled(x->type, x_data, count(*x))) return CUDNN_STATUS_BAD_PARAM;
  if (!is_filled(y->type, dy, count(*y))) return CUDNN_STATUS_BAD_PARAM;
  return report_search(found, results, conv->math);
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                     cudnnFilterDescriptor_t,
                                                     cudnnConvolutionDescriptor_t conv,
                                                     cudnnTensorDescriptor_t, int, int* found,
                                                     cudnnConvolutionFwdAlgoPerf_t* results) {
  return report_guess(found, results, conv->math);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t, int, int* found,
    cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return report_guess(found, results, conv->math);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
    cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t, int, int* found,
    cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return report_guess(found, results, conv->math);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      cudnnTensorDescriptor_t x, const void* x_data,
                                      cudnnFilterDescriptor_t w, const void* w_data,
                                      cudnnConvolutionDescriptor_t conv,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                      size_t bytes, const void* beta, cudnnTensorDescriptor_t y,
                                      void* y_data) {
  if (!fits(*x, *w, *conv, *y) || scalar(alpha) != 1 || scalar(beta) != 0) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  queue(handle->stream, [=, math = *conv] {
    if (!take_workspace(workspace, bytes, algorithm)) return;
    const std::vector<double> xs = factors(math, x->type, x_data, count(*x));
    const std::vector<double> ws = factors(math, w->type, w_data, count(*w));
    std::vector<double> sums(static_cast<std::size_t>(count(*y)));
    for_each_run(*x, *w, math, *y, [&, length = w->c](long at_x, long at_w, long at_y) {
      double& sum = sums[static_cast<std::size_t>(at_y)];
      sum = std::transform_reduce(xs.begin() + at_x, xs.begin() + at_x + length, ws.begin() + at_w,
                                  sum);
    });
    store_all(y->type, y_data, sums);
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x, const void* x_data,
    cudnnFilterDescriptor_t w, const void* w_data, cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t bytes, const void* alpha2,
    cudnnTensorDescriptor_t z, const void*, cudnnTensorDescriptor_t bias, const void* bias_data,
    cudnnActivationDescriptor_t activation, cudnnTensorDescriptor_t y, void* y_data) {
  const bool identity = activation->mode == CUDNN_ACTIVATION_IDENTITY;
  if (identity && (algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM ||
                   activation->nan != CUDNN_NOT_PROPAGATE_NAN)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  if (bias->c != y->c || bias->type != y->type || z->c != y->c || scalar(alpha2) != 0) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const float zero = 0;
  const cudnnStatus_t status = cudnnConvolutionForward(
      handle, alpha, x, x_data, w, w_data, conv, algorithm, workspace, bytes, &zero, y, y_data);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  queue(handle->stream, [=] {
    for (long i = 0; i < count(*y); ++i) {
      const double value = load(y->type, y_data, i) + load(bias->type, bias_data, i % y->c);
      const double rectified = value < 0 ? 0 : std::min(value, activation->bound);
      store(y->type, y_data, i, identity || std::isnan(value) ? value : rectified);
    }
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           cudnnFilterDescriptor_t w, const void* w_data,
                                           cudnnTensorDescriptor_t y, const void* dy,
                                           cudnnConvolutionDescriptor_t conv,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           size_t bytes, const void* beta,
                                           cudnnTensorDescriptor_t x, void* dx) {
  if (!fits(*x, *w, *conv, *y) || scalar(alpha) != 1 || scalar(beta) != 0) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  queue(handle->stream, [=, math = *conv] {
    if (!take_workspace(workspace, bytes, algorithm)) return;
    const std::vector<double> ys = factors(math, y->type, dy, count(*y));
    const std::vector<double> ws = factors(math, w->type, w_data, count(*w));
    std::vector<double> sums(static_cast<std::size_t>(count(*x)));
    for_each_run(*x, *w, math, *y, [&, length = w->c](long at_x, long at_w, long at_y) {
      add_multiple(sums.data() + at_x, ys[static_cast<std::size_t>(at_y)], ws.data() + at_w,
                   length);
    });
    store_all(x->type, dx, sums);
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             cudnnTensorDescriptor_t x, const void* x_data,
                                             cudnnTensorDescriptor_t y, const void* dy,
                                             cudnnConvolutionDescriptor_t conv,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                             void* workspace, size_t bytes, const void* beta,
                                             cudnnFilterDescriptor_t w, void* dw) {
  if (!fits(*x, *w, *conv, *y) || scalar(alpha) != 1) return CUDNN_STATUS_BAD_PARAM;
  if (scalar(beta) != 0) return CUDNN_STATUS_NOT_SUPPORTED;  // some engines cannot accumulate
  queue(handle->stream, [=, math = *conv] {
    if (!take_workspace(workspace, bytes, algorithm)) return;
    const std::vector<double> xs = factors(math, x->type, x_data, count(*x));
    const std::vector<double> ys = factors(math, y->type, dy, count(*y));
    std::vector<double> sums(static_cast<std::size_t>(count(*w)));
    for_each_run(*x, *w, math, *y, [&, length = w->c](long at_x, long at_w, long at_y) {
      add_multiple(sums.data() + at_w, ys[static_cast<std::size_t>(at_y)], xs.data() + at_x,
                   length);
    });
    store_all(w->type, dw, sums);
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
