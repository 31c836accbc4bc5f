// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Activations, add, reorder, conversions, optimizers and mean of the CUDA backend against the
// reference.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/math.h"
#include "kernels/ops/cuda/library/layout.h"
#include "tests/cuda/cuda_fixture.h"

namespace ddpbench::ops::testing {
namespace {

using CudaElementwise = CudaOps;
using CudaOptimizer = CudaOps;
using CudaMean = CudaOps;

// The last shape has several tiles of a transpose in each direction.
std::vector<Shape> shapes() {
  return {{1, 1, 1, 1}, {3, 5, 7, 3}, {2, 1, 4, 4}, {2, 33, 3, 5}, {3, 65, 9, 11}};
}

std::vector<TensorLayout> layouts(const Shape& shape) {
  return {TensorLayout::plain(shape), TensorLayout::plain(shape, DataType::bf16),
          cuda::nhwc_layout(shape, DataType::fp32), cuda::nhwc_layout(shape, DataType::bf16)};
}

// Runs make(backend, layout) of both backends in every layout. All results must be equal.
template <typename Make>
void compare(const Make& make) {
  BackendFixture plain = BackendFixture::reference();
  BackendFixture fixture = cuda_backend();
  for (const Shape& shape : shapes()) {
    const auto reference = make(plain.backend(), TensorLayout::plain(shape));
    const OpInputs in = whole_inputs(*reference, 1);
    const OpOutputs want = run(plain, *reference, in);
    for (const TensorLayout& layout : layouts(shape))
      for (const Execution execution : {Execution::direct, Execution::recorded}) {
        SCOPED_TRACE(to_string(shape) + " " + layout.tag);
        const auto op = make(fixture.backend(), layout);
        EXPECT_EQ(op->plan().output, layout);
        const OpOutputs got = run(fixture, *op, in, execution);
        EXPECT_TRUE(all_near(got.output, want.output, 0));
        ASSERT_EQ(got.grad_inputs.size(), want.grad_inputs.size());
        for (std::size_t i = 0; i < want.grad_inputs.size(); ++i)
          EXPECT_TRUE(all_near(got.grad_inputs[i], want.grad_inputs[i], 0));
      }
  }
}

TEST_F(CudaElementwise, ReluEqualsTheReference) {
  compare([](OpBackend& backend, const TensorLayout& layout) {
    return backend.make(ActivationDesc{layout});
  });
}

TEST_F(CudaElementwise, ActivationsEqualTheReference) {
  BackendFixture plain = BackendFixture::reference();
  BackendFixture fixture = cuda_backend();
  const Shape shape = {3, 65, 9, 11};
  for (const Activation kind : {Activation::relu6, Activation::tanh, Activation::sigmoid})
    for (const TensorLayout& layout : layouts(shape)) {
      const auto reference = plain.backend().make(ActivationDesc{TensorLayout::plain(shape), kind});
      OpInputs in = whole_inputs(*reference, 1);
      const OpOutputs want = run(plain, *reference, in);
      const auto op = fixture.backend().make(ActivationDesc{layout, kind});
      SCOPED_TRACE(op->plan().description + " " + layout.tag);
      const OpOutputs got = run(fixture, *op, in);
      // In bf16 the output is rounded, and the gradient, of up to 8, is that at the rounded output.
      const bool exact = kind == Activation::relu6, bf16 = layout.type == DataType::bf16;
      const double unit = exact ? 0 : bf16 ? 0x1p-8 : 4 * kEpsilon;
      EXPECT_TRUE(all_near(got.output, want.output, unit));
      EXPECT_TRUE(all_near(got.grad_inputs[0], want.grad_inputs[0], 16 * unit));
    }
}

TEST_F(CudaElementwise, AddEqualsTheReference) {
  compare(
      [](OpBackend& backend, const TensorLayout& layout) { return backend.make(AddDesc{layout}); });
}

TEST_F(CudaElementwise, ReluKeepsNaNAndLetsItsGradientThrough) {
  BackendFixture fixture = cuda_backend();
  for (const DataType type : {DataType::fp32, DataType::bf16}) {
    const auto op = fixture.backend().make(ActivationDesc{TensorLayout::plain({1, 3}, type)});
    const OpInputs in = {.inputs = {{std::numeric_limits<float>::quiet_NaN(), -1, 2}},
                         .grad_output = {3, 4, 5}};
    const OpOutputs got = run(fixture, *op, in);
    EXPECT_TRUE(std::isnan(got.output[0]));
    EXPECT_EQ(got.grad_inputs[0], (Values{3, 0, 5}));
  }
}

TEST_F(CudaElementwise, ReordersBetweenAllLayoutsAndTypesAndTakesGradientsBack) {
  BackendFixture fixture = cuda_backend();
  for (const Shape& shape : shapes())
    for (const TensorLayout& from : layouts(shape))
      for (const TensorLayout& to : layouts(shape)) {
        SCOPED_TRACE(to_string(shape) + " " + from.tag + " to " + to.tag);
        const auto op = fixture.backend().make(ReorderDesc{.from = from, .to = to});
        const OpInputs in = whole_inputs(*op, 5);
        const OpOutputs got = run(fixture, *op, in);
        EXPECT_TRUE(same_bits(got.output, in.inputs[0]));
        EXPECT_TRUE(same_bits(got.grad_inputs[0], in.grad_output));
      }
}

TEST_F(CudaElementwise, KeepsChannelsLastInMemory) {
  BackendFixture fixture = cuda_backend();
  const Shape shape = {2, 3, 2, 2};
  const Values values = shuffled_values(element_count(shape), 1);
  for (const TensorLayout& layout :
       {cuda::nhwc_layout(shape, DataType::fp32), cuda::ohwi_layout(shape)}) {
    const auto memory = fixture.download<float>(fixture.to_layout(values, layout));
    for (std::size_t n = 0; n < 2; ++n)
      for (std::size_t c = 0; c < 3; ++c)
        for (std::size_t pixel = 0; pixel < 4; ++pixel)
          EXPECT_EQ(memory[(n * 4 + pixel) * 3 + c], values[(n * 3 + c) * 4 + pixel]);
  }
}

TEST_F(CudaElementwise, RoundsToTheNearestBf16) {
  BackendFixture fixture = cuda_backend();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // A unit in bf16's last place is 2^-7 for values in [1, 2). Halves go to the even neighbour.
  const Values values = {1,          1 + 0x1p-8F,    1 + 3 * 0x1p-8F, 1 + 0x1.01p-8F,
                         -kInfinity, 0x1.fffffep127F};
  const TensorLayout layout = TensorLayout::plain({1, 6}, DataType::bf16);
  const Values got = fixture.to_plain(fixture.to_layout(values, layout), layout);
  EXPECT_EQ(got, (Values{1, 1, 1 + 0x1p-6F, 1 + 0x1p-7F, -kInfinity, kInfinity}));
}

TEST_F(CudaElementwise, RefusesLayoutsOfDifferentTensors) {
  BackendFixture fixture = cuda_backend();
  EXPECT_THROW(
      fixture.backend().make(ReorderDesc{.from = cuda::nhwc_layout({1, 8, 3, 1}, DataType::fp32),
                                         .to = TensorLayout::plain({23})}),
      ConfigError);
}

// `optimizer` of the backend and of the reference on the same numbers: `updates` updates, the last
// ones by replaying a recorded one.
void compare_updates(BackendFixture& fixture, const OptimizerOptions& options, std::size_t count,
                     std::size_t offset) {
  BackendFixture plain = BackendFixture::reference();
  const auto size = static_cast<std::int64_t>(count + offset);
  Values weights = random_values(size, 1);
  const Values gradients = random_values(size, 2);
  const OpMemory w = fixture.upload(weights), g = fixture.upload(gradients);
  const std::size_t bytes = optimizer_state_bytes(options, count);
  std::vector<std::byte> zeros(bytes + 64);
  const OpMemory on_device = fixture.upload(zeros);
  const OpMemory on_host = plain.upload(zeros);
  const auto floats = [&](std::byte* p) { return reinterpret_cast<float*>(p) + offset; };
  OptimizerArgs args{.weights = floats(w.data()),
                     .gradients = floats(g.data()),
                     .state = on_device.data(),
                     .count = count,
                     .grad_scale = 0.5F,
                     .options = options};
  fixture.backend().update(fixture.stream(), args);
  constexpr int kUpdates = 4;
  fixture.stream().begin_recording();
  fixture.backend().update(fixture.stream(), args);
  const auto recorded = fixture.stream().end_recording();
  for (int update = 1; update < kUpdates; ++update) recorded->replay(fixture.stream());
  args.weights = weights.data() + offset;
  args.gradients = gradients.data() + offset;
  args.state = on_host.data();
  for (int update = 0; update < kUpdates; ++update) {
    plain.backend().update(plain.stream(), args);
  }
  // A dozen roundings an update, of values below 3.
  EXPECT_TRUE(all_near(fixture.download<float>(w), weights, kUpdates * 36 * kEpsilon));
  Values kept = fixture.download<float>(on_device), expected = plain.download<float>(on_host);
  const std::size_t slots = slot_count(options) * (round_up(count * sizeof(float), 64) / 4);
  kept.resize(slots), expected.resize(slots);
  EXPECT_TRUE(all_near(kept, expected, kUpdates * 36 * kEpsilon));
}

// A recorded step of a scaled loss reads the scale anew, and skips what overflows.
TEST_F(CudaOptimizer, ScalesTheLossAlsoInReplays) {
  constexpr std::size_t kCount = 1029;
  BackendFixture fixture = cuda_backend();
  const Values start = random_values(kCount, 1);
  Values gradients = random_values(kCount, 2);
  const OpMemory w = fixture.upload(start), g = fixture.upload(gradients);
  const OpMemory scale = fixture.upload(std::vector<LossScale>(1));
  auto* const on_device = reinterpret_cast<LossScale*>(scale.data());
  const auto* const flat = reinterpret_cast<const float*>(g.data());
  const auto step = [&] {
    fixture.backend().find_overflow(fixture.stream(), flat, kCount, on_device);
    fixture.backend().update(fixture.stream(), {.weights = reinterpret_cast<float*>(w.data()),
                                                .gradients = flat,
                                                .count = kCount,
                                                .loss_scale = on_device,
                                                .options = {.lr = 1, .momentum = 0}});
    fixture.backend().end_scaled_step(fixture.stream(), on_device);
  };
  fixture.stream().begin_recording();
  step();
  const auto recorded = fixture.stream().end_recording();
  const auto replay_with = [&](float last) {
    gradients.back() = last;
    const std::size_t bytes = kCount * sizeof(float);
    fixture.device().copy(fixture.stream(), {g.data(), bytes},
                          {reinterpret_cast<std::byte*>(gradients.data()), bytes});
    recorded->replay(fixture.stream());
    fixture.stream().synchronize();
  };
  replay_with(INFINITY);
  EXPECT_EQ(fixture.download<float>(w), start);
  EXPECT_EQ(fixture.download<LossScale>(scale)[0].scale, 32768);
  replay_with(1);
  Values expected = start;
  for (std::size_t k = 0; k < kCount; ++k) expected[k] -= gradients[k] / 32768;
  EXPECT_TRUE(all_near(fixture.download<float>(w), expected, kEpsilon));
  EXPECT_EQ(fixture.download<LossScale>(scale)[0].skipped, 1);
}

// Counts around a vector of four, and offsets that break its alignment. What a replayed update
// reads anew is the number of updates, with Adam's corrections.
TEST_F(CudaOptimizer, UpdatesAsTheReferenceAlsoWhenRecorded) {
  BackendFixture fixture = cuda_backend();
  const OptimizerOptions all[] = {
      {.lr = 0.1, .momentum = 0, .weight_decay = 0.01},
      {.lr = 0.1, .weight_decay = 0.01},
      {.lr = 0.1, .nesterov = true, .weight_decay = 0.01},
      {.kind = OptimizerKind::adam, .lr = 0.1, .weight_decay = 0.01},
      {.lr = 0.1, .momentum = 0, .schedule = {.warmup_steps = 3}},
      {.lr = 0.1, .schedule = {.kind = ScheduleKind::step, .gamma = 0.5}},
      {.kind = OptimizerKind::adam,
       .lr = 0.1,
       .schedule = {.kind = ScheduleKind::cosine, .cosine_steps = 4}},
      {.kind = OptimizerKind::adamw, .lr = 0.1, .beta1 = 0.5, .weight_decay = 0.1}};
  for (const OptimizerOptions& options : all)
    for (const std::size_t count : {1, 3, 4, 5, 1023, 4096})
      for (const std::size_t offset : {0, 1}) compare_updates(fixture, options, count, offset);
}

TEST_F(CudaMean, EqualsTheReferenceAlsoInPlace) {
  BackendFixture plain = BackendFixture::reference();
  BackendFixture fixture = cuda_backend();
  for (const std::size_t buffers : {1, 2, 5, 256}) {
    const std::size_t count = 1025;
    std::vector<Values> host;
    std::vector<OpMemory> device;
    std::vector<const float*> host_pointers, device_pointers;
    for (std::size_t b = 0; b < buffers; ++b) {
      host.push_back(random_values(count, static_cast<std::uint32_t>(b)));
      device.push_back(fixture.upload(host.back()));
    }
    for (const Values& values : host) host_pointers.push_back(values.data());
    for (const OpMemory& m : device) device_pointers.push_back(reinterpret_cast<float*>(m.data()));
    Values want(count);
    plain.backend().mean(plain.stream(), host_pointers, want.data(), count);
    auto* const last = reinterpret_cast<float*>(device.back().data());
    fixture.backend().mean(fixture.stream(), device_pointers, last, count);
    EXPECT_TRUE(all_near(fixture.download<float>(device.back()), want,
                         sum_tolerance(static_cast<std::int64_t>(buffers))));
  }
}

// One input, or the result, is not aligned for 16-byte accesses.
TEST_F(CudaMean, TakesBuffersOfAnyAlignmentAndCount) {
  BackendFixture fixture = cuda_backend();
  for (const std::size_t count : {1, 3, 4, 8, 1026}) {
    for (const std::size_t shifted : {0, 1, 2, 3}) {
      SCOPED_TRACE(count);
      std::vector<Values> host;
      std::vector<OpMemory> device;
      for (std::uint32_t b = 0; b < 3; ++b) {
        host.push_back(whole_values(static_cast<std::int64_t>(count) + 1, b));
        device.push_back(fixture.upload(host.back()));
      }
      std::vector<float*> at;
      for (std::size_t b = 0; b < 3; ++b) {
        at.push_back(reinterpret_cast<float*>(device[b].data()) + (b == shifted ? 1 : 0));
      }
      const std::vector<const float*> inputs(at.begin(), at.begin() + 2);
      fixture.backend().mean(fixture.stream(), inputs, at[2], count);
      Values want = host[2];
      for (std::size_t i = 0; i < count; ++i) {
        want[i + (shifted == 2 ? 1 : 0)] =
            (host[0][i + (shifted == 0 ? 1 : 0)] + host[1][i + (shifted == 1 ? 1 : 0)]) / 2;
      }
      EXPECT_EQ(fixture.download<float>(device[2]), want);
    }
  }
}

TEST_F(CudaMean, RefusesMoreBuffersThanItCanTake) {
  BackendFixture fixture = cuda_backend();
  const std::vector<const float*> pointers(257);
  EXPECT_THROW(fixture.backend().mean(fixture.stream(), pointers, nullptr, 1), DeviceError);
}

}  // namespace
}  // namespace ddpbench::ops::testing
