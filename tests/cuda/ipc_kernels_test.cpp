// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels of ipc, compiled for the host, against the arithmetic of shm, bit by bit.
#include "parallel/comm/cuda/ipc/ipc_kernels.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "parallel/comm/shm/collectives/reduce_kernels.h"

namespace ddpbench::comm {
namespace {

constexpr DataType kTypes[] = {DataType::fp32,  DataType::fp64,  DataType::bf16, DataType::fp16,
                               DataType::int32, DataType::int64, DataType::uint8};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::maximum};
// Part of a vector; some vectors; more than a thread has in flight, in one block and in all.
constexpr std::size_t kBytes[] = {8, 1000, 40'008, 1'300'008};

// Random numbers of several magnitudes, whose sums do not overflow; some are NaN.
void fill(DataType type, std::vector<std::byte>& data, std::mt19937& random, bool nans) {
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  const auto set = [&](auto example, auto&& make) {
    using T = decltype(example);
    for (std::size_t i = 0; (i + 1) * sizeof(T) <= data.size(); ++i) {
      const T value = make();
      std::memcpy(&data[i * sizeof(T)], &value, sizeof(T));
    }
  };
  const auto number = [&] {
    if (nans && random() % 50 == 0) return std::numeric_limits<float>::quiet_NaN();
    const int exponent = static_cast<int>(random() % 12) - 6;
    return std::ldexp(static_cast<float>(random() % 4096) - 2048.0F, exponent - 8);
  };
  if (type == DataType::fp32) set(float(), number);
  if (type == DataType::fp64) set(double(), [&] { return static_cast<double>(number()) / 3; });
  if (type == DataType::bf16 || type == DataType::fp16) {
    const bool is_bf16 = type == DataType::bf16;
    set(std::uint16_t(), [&] {
      const unsigned long sign = random() % 2 << 15, mantissa = random() % (is_bf16 ? 128 : 1024);
      if (nans && random() % 50 == 0) return std::uint16_t{0x7fff};
      const unsigned long exponent = is_bf16 ? 120 + random() % 10 : 10 + random() % 10;
      return static_cast<std::uint16_t>(sign | exponent << (is_bf16 ? 7 : 10) | mantissa);
    });
  }
}

// What the ranks see of each other: offers of addresses.
struct Offers {
  std::uint32_t aborted = 0;
  std::vector<std::uint64_t> offers;
  IpcTable table{.bases = nullptr, .aborted = &aborted};
};

struct Shape {
  DataType type;
  ReduceOp op;
  std::size_t bytes;
  std::size_t shift;  // of all data, in elements: 1 is no multiple of a vector
  int ranks, rank;
};

std::vector<std::vector<std::byte>> inputs_of(const Shape& shape) {
  std::mt19937 random(static_cast<unsigned>(shape.bytes) + static_cast<unsigned>(shape.rank));
  std::vector<std::vector<std::byte>> inputs;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    inputs.emplace_back(shape.bytes + 64);
    fill(shape.type, inputs.back(), random, shape.op == ReduceOp::maximum);
  }
  return inputs;
}

void expect_same_bits(const Shape& shape) {
  const std::size_t unit = size_of(shape.type), shift = shape.shift * unit;
  std::vector<std::vector<std::byte>> inputs = inputs_of(shape);
  std::vector<const std::byte*> sources;
  Offers seen;
  for (const auto& input : inputs) {
    sources.push_back(input.data() + shift);
    seen.offers.push_back(offer_of_address(reinterpret_cast<std::uintptr_t>(sources.back())));
  }
  const std::size_t count = shape.bytes / unit;
  std::vector<std::byte> want(count * unit);
  reduce_sources(want.data(), sources, count,
                 {shape.type, shape.op, shape.op == ReduceOp::average ? shape.ranks : 1});
  std::byte* const own = inputs[static_cast<std::size_t>(shape.rank)].data() + shift;
  const std::byte behind = own[count * unit];
  ASSERT_EQ(launch_reduction({.table = seen.table,
                              .offers = seen.offers.data(),
                              .offer_stride = 1,
                              .rank = shape.rank,
                              .size = shape.ranks,
                              .own = own,
                              .target = own,  // as ipc does
                              .count = count,
                              .type = shape.type,
                              .op = shape.op,
                              .divisor = shape.op == ReduceOp::average ? shape.ranks : 1},
                             nullptr),
            cudaSuccess);
  EXPECT_EQ(std::memcmp(own, want.data(), want.size()), 0);
  EXPECT_EQ(own[count * unit], behind);
}

TEST(IpcKernels, ReduceAsTheCpuDoes) {
  for (const DataType type : kTypes) {
    for (const ReduceOp op : kOps) {
      for (const std::size_t bytes : kBytes) {
        for (const std::size_t shift : {0, 1}) {
          const Shape shape{type, op, bytes, shift, 3, static_cast<int>(bytes % 3)};
          SCOPED_TRACE(fmt::format("type {}, operation {}, {} bytes, shifted by {}",
                                   static_cast<int>(type), static_cast<int>(op), bytes, shift));
          expect_same_bits(shape);
        }
      }
    }
  }
}

TEST(IpcKernels, ReduceManyRanksAndOne) {
  for (const int ranks : {1, 2, kMaxIpcRanks}) {
    SCOPED_TRACE(ranks);
    expect_same_bits({DataType::fp32, ReduceOp::average, 40'008, 0, ranks, ranks - 1});
  }
}

// A peer has two registered buffers and offers the second from its 16th byte on.
TEST(IpcKernels, PullWhatIsOfferedToAnyPlace) {
  for (const std::size_t bytes : kBytes) {
    for (const std::size_t shift : {0, 1, 4}) {
      SCOPED_TRACE(fmt::format("{} bytes to {}", bytes, shift));
      std::vector<std::byte> source(bytes + 64), target(bytes + 64, std::byte{7});
      for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i % 251);
      std::vector<std::uint64_t> bases(2 * kIpcRegistrations);
      bases[kIpcRegistrations + 1] = reinterpret_cast<std::uintptr_t>(source.data());
      const std::uint32_t aborted = 0;
      const std::uint64_t offer = offer_of(1, 16);
      IpcPulls pulls{.table = {.bases = bases.data(), .aborted = &aborted}, .count = 1};
      pulls.pulls[0] = {
          .offer = &offer, .peer = 1, .target = target.data() + shift, .bytes = bytes};
      ASSERT_EQ(launch_pulls(pulls, nullptr), cudaSuccess);
      EXPECT_EQ(std::memcmp(target.data() + shift, source.data() + 16, bytes), 0);
      EXPECT_EQ(target[shift + bytes], std::byte{7});
      if (shift > 0) {
        EXPECT_EQ(target[shift - 1], std::byte{7});
      }
    }
  }
}

TEST(IpcKernels, PullFromSeveralPeersAtOnce) {
  std::vector<std::vector<std::byte>> sources, targets;
  std::vector<std::uint64_t> offers(3);
  const std::uint32_t aborted = 0;
  IpcPulls pulls{.table = {.bases = nullptr, .aborted = &aborted}, .count = 3};
  for (std::size_t i = 0; i < 3; ++i) {
    sources.emplace_back(i * 50'000 + 4, static_cast<std::byte>(i + 1));
    targets.emplace_back(sources[i].size());
    offers[i] = offer_of_address(reinterpret_cast<std::uintptr_t>(sources[i].data()));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    pulls.pulls[i] = {.offer = &offers[i],
                      .peer = static_cast<int>(i),
                      .target = targets[i].data(),
                      .bytes = sources[i].size()};
  }
  ASSERT_EQ(launch_pulls(pulls, nullptr), cudaSuccess);
  EXPECT_EQ(targets, sources);
}

// One step of the ring. The kernel finds a peer's numbers through that peer's row of the table.
TEST(IpcKernels, AddOnePeersNumbersToTheOwn) {
  constexpr int kPeer = 2;
  const std::vector<float> peers = {1, 2, 3, 4, 5, 6, 7};
  std::vector<float> own = {10, 20, 30, 40, 50, 60, 70};
  std::vector<std::uint64_t> bases(4 * kIpcRegistrations);
  bases[kPeer * kIpcRegistrations + 1] = reinterpret_cast<std::uintptr_t>(peers.data());
  const std::uint32_t aborted = 0;
  const std::uint64_t offer = offer_of(1, 0);
  IpcReduction step{
      .table = {.bases = bases.data() + kPeer * kIpcRegistrations, .aborted = &aborted},
      .offers = &offer,
      .offer_stride = 4,
      .rank = 1,
      .size = 2,
      .own = own.data(),
      .target = own.data(),
      .count = own.size(),
      .op = ReduceOp::average};
  ASSERT_EQ(launch_reduction(step, nullptr), cudaSuccess);
  EXPECT_EQ(own, (std::vector<float>{11, 22, 33, 44, 55, 66, 77}));  // the sum is not complete
  step.divisor = 4;
  ASSERT_EQ(launch_reduction(step, nullptr), cudaSuccess);
  EXPECT_EQ(own, (std::vector<float>{3, 6, 9, 12, 15, 18, 21}));
}

TEST(IpcKernels, DoNothingWithVoidOffers) {
  std::vector<float> own(100, 1.0F), peer(100, 2.0F);
  std::vector<std::uint64_t> bases(2 * kIpcRegistrations);
  std::uint32_t aborted = 0;
  std::uint64_t offers[2] = {0, 0};
  IpcReduction reduction{.table = {.bases = bases.data(), .aborted = &aborted},
                         .offers = offers,
                         .offer_stride = 1,
                         .rank = 0,
                         .size = 2,
                         .own = own.data(),
                         .target = own.data(),
                         .count = own.size()};
  const std::vector<float> untouched = own;
  const auto expect_nothing = [&](const char* why) {
    ASSERT_EQ(launch_reduction(reduction, nullptr), cudaSuccess);
    EXPECT_EQ(own, untouched) << why;
  };
  expect_nothing("nothing is offered");
  offers[1] = offer_of(0, 0);
  expect_nothing("the registration is not mapped");
  offers[1] = offer_of(static_cast<int>(kIpcRegistrations), 0);
  expect_nothing("there is no such registration");
  offers[1] = offer_of_address(reinterpret_cast<std::uintptr_t>(peer.data()));
  aborted = 1;
  expect_nothing("ipc was aborted");
  aborted = 0;
  ASSERT_EQ(launch_reduction(reduction, nullptr), cudaSuccess);
  EXPECT_EQ(own, std::vector<float>(100, 3.0F));
}

}  // namespace
}  // namespace ddpbench::comm
