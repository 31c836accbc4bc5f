// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs one operation of any backend, on any device, on plain host data. It converts to the layouts
// that the operation wants and gives it memory of exactly the requested sizes, filled with NaN, so
// that a read of unwritten memory shows. It runs forward and backward and converts back.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops/backend.h"
#include "kernels/runtime/cpu_device.h"

namespace ddpbench::ops::testing {

inline constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

using Values = std::vector<float>;

// Uniform in [-1, 1); equal seeds and counts give equal values on every machine.
Values random_values(std::int64_t count, std::uint32_t seed);
// 0 .. count-1 in random order: all distinct, gaps of 1.
Values shuffled_values(std::int64_t count, std::uint32_t seed);

// 64-byte aligned memory of exact size, filled with NaN. It belongs to the host, or to a device
// that the host cannot reach.
class OpMemory {
 public:
  explicit OpMemory(std::size_t bytes);
  OpMemory(Device& device, Stream& stream, std::size_t bytes);
  std::byte* data() const { return host_ ? host_.get() : buffer_.data(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> host_;
  Buffer buffer_;
  std::size_t bytes_;
};

// A backend with its device and stream.
class BackendFixture {
 public:
  static BackendFixture onednn(int threads = 1);
  static BackendFixture reference();
  // Takes any other backend. The calling thread becomes the device's leading thread.
  static BackendFixture on(std::unique_ptr<Device> device,
                           const std::function<std::unique_ptr<OpBackend>(Device&)>& make);
  Device& device() { return *device_; }
  OpBackend& backend() { return *backend_; }
  Stream& stream() { return *stream_; }

  OpMemory allocate(std::size_t bytes);  // on the device
  // Copies, and waits for all queued work.
  OpMemory upload(const void* host, std::size_t bytes);
  template <typename T>
  OpMemory upload(const std::vector<T>& host) {
    return upload(host.data(), host.size() * sizeof(T));
  }
  void download(const OpMemory& memory, void* host);
  template <typename T>
  std::vector<T> download(const OpMemory& memory) {
    std::vector<T> host(memory.bytes() / sizeof(T));
    download(memory, host.data());
    return host;
  }

  OpMemory to_layout(const Values& plain, const TensorLayout& layout);
  Values to_plain(const OpMemory& memory, const TensorLayout& layout);

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<OpBackend> backend_;
};

// The team sizes of the tests. ThreadSanitizer does not know libgomp's synchronisation.
std::vector<int> team_sizes();

struct OpInputs {
  std::vector<Values> inputs = {};
  std::vector<Values> parameters = {};
  Values grad_output = {};
  Values more_grad_output = {};  // of operations that add it; empty: none
  // If not empty: the parameter gradients before backward, which then accumulates.
  std::vector<Values> initial_gradients = {};
  bool want_grad_inputs = true;
  std::vector<std::size_t> unwanted = {};  // inputs whose gradients nobody wants, beside those
  std::vector<Values> state = {};  // before forward, counts as well; empty: the start values
  Mode mode = Mode::training;      // an evaluation runs forward only
  std::int64_t step = 0;           // RandomDraw::step's value
  RandomDraw draw = {};            // the harness sets its pointer
};

// The same inputs, with both parts of the output's gradient in one.
OpInputs with_added_gradient(OpInputs in);

// Random tensors of the right sizes for an operation.
OpInputs random_inputs(const Op& op, std::uint32_t seed);

struct OpOutputs {
  Values output;
  std::vector<Values> grad_inputs;  // [input], without elements where it is unwanted
  std::vector<Values> grad_parameters;
  std::vector<Values> state;  // after forward
};

// `recorded`: after one direct call the stream records a second one, and the results are those of
// the replay.
enum class Execution : std::uint8_t { direct, recorded };
OpOutputs run(BackendFixture& fixture, Op& op, const OpInputs& in,
              Execution execution = Execution::direct);

// got - want| <= tolerance for every element. The message names the first that is not.
::testing::AssertionResult all_near(const Values& got, const Values& want, double tolerance);
// Equal bits, so that NaN equals itself.
::testing::AssertionResult same_bits(const Values& got, const Values& want);
// `outputs` as they are without the gradients of these inputs.
OpOutputs without_gradients(OpOutputs outputs, const std::vector<std::size_t>& inputs);
// Compares the outputs and all gradients.
void expect_same_bits(const OpOutputs& got, const OpOutputs& want);

// One step of an operation of a CPU device that has one input, on tensors as its plan lays them
// out.
void run_as_laid_out(Op& op, const Values& x, const std::vector<const void*>& parameters, Values& y,
                     Values& dx, const std::vector<void*>& grad_parameters);

// The error of a sum of `terms` products of values in [-1, 1] in single precision. Each of `terms`
// additions rounds a partial sum, about sqrt(terms) / 3, by at most half an epsilon of it. Random
// roundings add up as sqrt(terms): eps * terms / 6. The tolerance is six times that.
double sum_tolerance(std::int64_t terms);

// The reference, and oneDNN's with each team size.
std::vector<BackendFixture> all_backends();

}  // namespace ddpbench::ops::testing
