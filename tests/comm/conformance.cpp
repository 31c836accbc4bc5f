// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "base/error.h"
#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {

namespace {

bool has_bits(std::span<const float> values, std::span<const float> wanted) {
  return std::ranges::equal(std::as_bytes(values), std::as_bytes(wanted));
}

// A bf16 that holds a number of at most 8 significant bits.
class Bf16 {
 public:
  Bf16() = default;
  template <typename Number>
  explicit Bf16(Number number)
      : bits_(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(number)) >>
                                         16)) {}
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16);
  }
  explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }
  bool operator==(const Bf16&) const = default;
  friend Bf16 operator/(Bf16 a, Bf16 b) {
    return Bf16(static_cast<float>(a) / static_cast<float>(b));
  }

 private:
  std::uint16_t bits_ = 0;
};

// The C++ types of elements.
template <DataType type>
struct TypeOf;
template <>
struct TypeOf<DataType::fp32> {
  using T = float;
};
template <>
struct TypeOf<DataType::fp64> {
  using T = double;
};
template <>
struct TypeOf<DataType::bf16> {
  using T = Bf16;
};
template <>
struct TypeOf<DataType::fp16> {
  using T = _Float16;
};
template <>
struct TypeOf<DataType::int32> {
  using T = std::int32_t;
};
template <>
struct TypeOf<DataType::int64> {
  using T = std::int64_t;
};
template <>
struct TypeOf<DataType::uint8> {
  using T = std::uint8_t;
};

std::int64_t value(int rank, std::size_t index, std::int64_t below) {
  const auto i = static_cast<std::int64_t>(index);
  return ((rank + 1) * 7 + i * 31 + i / 61 + rank * (i % 13)) % below;
}

// Memory of one rank. It is registered if the world wants that, and freed after the communicator.
class RankMemory {
 public:
  RankMemory(Communicator& c, bool registered, std::size_t bytes) : c_(c), registered_(registered) {
    if (registered) {
      buffer_ = mappable_buffer(bytes + 64);
      c.register_buffer(buffer_);
    } else {
      plain_.resize(bytes + 64);
    }
  }
  ~RankMemory() {
    if (registered_) c_.deregister_buffer(buffer_);
  }
  RankMemory(const RankMemory&) = delete;
  RankMemory& operator=(const RankMemory&) = delete;
  std::byte* data() { return registered_ ? buffer_.data() : plain_.data(); }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data());
  }

 private:
  Communicator& c_;
  const bool registered_;
  Buffer buffer_;
  std::vector<std::byte> plain_;
};

std::vector<std::size_t> counts_for(int size) {
  const auto n = static_cast<std::size_t>(size);
  // Nothing, fewer than ranks, a mailbox, many segments.
  return {0, 1, n - 1, n, n + 1, 4099, 300'007};
}

template <typename T>
void fill(T* data, std::size_t count, int rank, std::int64_t below) {
  for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<T>(value(rank, i, below));
}

template <typename T>
T reduced(int size, std::size_t index, ReduceOp op, std::int64_t below) {
  std::int64_t sum = 0, most = 0;
  for (int rank = 0; rank < size; ++rank) {
    sum += value(rank, index, below);
    most = std::max(most, value(rank, index, below));
  }
  if (op == ReduceOp::maximum) return static_cast<T>(most);
  return static_cast<T>(op == ReduceOp::sum ? static_cast<T>(sum)
                                            : static_cast<T>(sum) / static_cast<T>(size));
}

// How far a mean may be from the sum divided by the ranks. NCCL multiplies by the rounded 1 /
// ranks.
double slack_of(const Communicator& c, ReduceOp op) {
  const bool rounds = c.backend() == "nccl" && op == ReduceOp::average &&
                      !std::has_single_bit(static_cast<unsigned>(c.size()));
  return rounds ? 2 * std::numeric_limits<float>::epsilon() : 0;
}

// Compares elements of memory with wanted(index).
template <typename T, typename Wanted>
void expect_all(const T* got, std::size_t count, const std::string& what, Wanted&& wanted,
                double slack = 0) {
  for (std::size_t i = 0; i < count; ++i) {
    const T want = static_cast<T>(wanted(i));
    const auto distance = std::abs(static_cast<double>(got[i]) - static_cast<double>(want));
    if (got[i] != want && !(distance <= slack * static_cast<double>(want))) {
      check(false, fmt::format("{}: [{}] is {}, expected {}", what, i, static_cast<double>(got[i]),
                               static_cast<double>(want)));
    }
  }
}

template <DataType type>
void check_all_reduce(Communicator& c, std::byte* memory, std::size_t count, std::int64_t below) {
  using T = typename TypeOf<type>::T;
  T* const data = reinterpret_cast<T*>(memory);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::maximum}) {
    // Else averages of two bytes are rounded.
    const bool exact = sizeof(T) != 2 || std::has_single_bit(static_cast<unsigned>(c.size()));
    if (op == ReduceOp::average && !exact) continue;
    fill(data, count, c.rank(), below);
    data[count] = T{77};  // not ours
    c.all_reduce({data, count, type}, op, {.after = nullptr, .start = Start::deferred})
        .synchronize();
    expect_all(
        data, count, fmt::format("op {}, count {}", static_cast<int>(op), count),
        [&](std::size_t i) { return reduced<T>(c.size(), i, op, below); }, slack_of(c, op));
    check(data[count] == T{77}, "an element behind the end was written");
  }
}

}  // namespace

void check_all_reduce_for_every_count(Communicator& c, bool registered) {
  RankMemory memory(c, registered, 300'007 * sizeof(float));
  for (const std::size_t count : counts_for(c.size())) {
    check_all_reduce<DataType::fp32>(c, memory.data(), count, 5003);
  }
}

void check_all_reduce_of_every_type(Communicator& c, bool registered) {
  RankMemory memory(c, registered, 20'011 * sizeof(double));
  check_all_reduce<DataType::fp64>(c, memory.data(), 20'011, 5003);
  check_all_reduce<DataType::int32>(c, memory.data(), 20'011, 5003);
  check_all_reduce<DataType::int64>(c, memory.data(), 20'011, 5003);
  check_all_reduce<DataType::uint8>(c, memory.data(), 20'011, 31);  // 8 * 30 < 256
}

void check_all_reduce_of_narrow_types(Communicator& c, bool registered) {
  RankMemory memory(c, registered, 300'007 * sizeof(std::uint16_t));
  for (const std::size_t count : {std::size_t{1}, std::size_t{20'011}, std::size_t{300'007}}) {
    check_all_reduce<DataType::bf16>(c, memory.data(), count, 31);  // 8 * 30 < 256
    check_all_reduce<DataType::fp16>(c, memory.data(), count, 31);
  }
}

void check_all_reduce_where_a_buffer_does_not_begin(Communicator& c, bool registered) {
  RankMemory memory(c, registered, 20'011 * sizeof(float));
  check_all_reduce<DataType::fp32>(c, memory.data() + 5 * sizeof(float), 20'000, 5003);
}

void check_reduce(Communicator& c, bool registered) {
  RankMemory memory(c, registered, 300'007 * sizeof(float));
  float* const data = memory.as<float>();
  for (const std::size_t count : counts_for(c.size())) {
    for (const int root : {0, c.size() - 1}) {
      fill(data, count, c.rank(), 5003);
      c.reduce({data, count}, ReduceOp::sum, root).synchronize();
      if (c.rank() != root) continue;
      expect_all(data, count, fmt::format("root {}, count {}", root, count),
                 [&](std::size_t i) { return reduced<float>(c.size(), i, ReduceOp::sum, 5003); });
    }
  }
}

void check_broadcast(Communicator& c, bool registered) {
  RankMemory memory(c, registered, 600'011 * sizeof(float));
  float* const data = memory.as<float>();
  auto counts = counts_for(c.size());
  counts.push_back(600'011);  // more segments than there are lanes
  for (const std::size_t count : counts) {
    for (const int root : {0, c.size() / 2}) {
      fill(data, count, c.rank(), 5003);
      c.broadcast({data, count}, root).synchronize();
      expect_all(data, count, fmt::format("root {}, count {}", root, count),
                 [&](std::size_t i) { return value(root, i, 5003); });
    }
  }
}

void check_all_gather(Communicator& c, bool registered) {
  const auto n = static_cast<std::size_t>(c.size());
  for (const bool in_place : {false, true}) {
    RankMemory memory(c, registered, (n + 1) * 140'009 * sizeof(float));
    for (const std::size_t count : {0UL, 1UL, n + 1, 4099UL, 140'009UL}) {
      float* const out = memory.as<float>();
      float* const in =
          in_place ? out + static_cast<std::size_t>(c.rank()) * count : out + n * count;
      fill(in, count, c.rank(), 5003);
      c.all_gather({in, count}, {out, n * count}).synchronize();
      expect_all(out, n * count, fmt::format("count {}", count), [&](std::size_t i) {
        return value(static_cast<int>(i / count), i % count, 5003);
      });
    }
  }
}

void check_reduce_scatter(Communicator& c, bool registered) {
  const auto n = static_cast<std::size_t>(c.size());
  const auto rank = static_cast<std::size_t>(c.rank());
  for (const bool in_place : {false, true}) {
    RankMemory memory(c, registered, (n + 1) * 140'009 * sizeof(float));
    for (const std::size_t count : {0UL, 1UL, n + 1, 4099UL, 140'009UL}) {
      float* const in = memory.as<float>();
      float* const out = in_place ? in + rank * count : in + n * count;
      fill(in, n * count, c.rank(), 5003);
      c.reduce_scatter({in, n * count}, {out, count}, ReduceOp::average).synchronize();
      expect_all(
          out, count, fmt::format("count {}", count),
          [&](std::size_t i) {
            return reduced<float>(c.size(), rank * count + i, ReduceOp::average, 5003);
          },
          slack_of(c, ReduceOp::average));
    }
  }
}

void check_scatter_and_gather(Communicator& c, bool registered) {
  const auto n = static_cast<std::size_t>(c.size());
  const auto rank = static_cast<std::size_t>(c.rank());
  RankMemory memory(c, registered, (n + 1) * 140'009 * sizeof(float));
  for (const std::size_t count : {0UL, 1UL, 4099UL, 140'009UL}) {
    for (const int root : {0, c.size() - 1}) {
      float* const whole = memory.as<float>();
      float* const part = whole + n * count;
      fill(whole, n * count, c.rank(), 5003);
      fill(part, count, c.rank(), 4001);
      c.scatter({whole, n * count}, {part, count}, root).synchronize();
      expect_all(part, count, fmt::format("scatter, root {}, count {}", root, count),
                 [&](std::size_t i) { return value(root, rank * count + i, 5003); });
      fill(part, count, c.rank(), 4001);
      c.gather({part, count}, {whole, n * count}, root).synchronize();
      if (c.rank() != root) continue;
      expect_all(
          whole, n * count, fmt::format("gather, root {}, count {}", root, count),
          [&](std::size_t i) { return value(static_cast<int>(i / count), i % count, 4001); });
    }
  }
}

void check_mixed_memory(Communicator& c, bool registered) {
  RankMemory memory(c, registered, 300'007 * sizeof(float));
  std::vector<float> own(300'007);
  float* const data = c.rank() % 2 == 0 ? own.data() : memory.as<float>();
  fill(data, own.size(), c.rank(), 5003);
  c.all_reduce({data, own.size()}, ReduceOp::sum).synchronize();
  expect_all(data, own.size(), "mixed",
             [&](std::size_t i) { return reduced<float>(c.size(), i, ReduceOp::sum, 5003); });
}

// Sums of fractions depend on the order of addition; it must be one order everywhere.
void check_all_reduce_is_bit_identical(Communicator& c, bool registered) {
  const std::size_t count = 100'003;
  RankMemory memory(c, registered, count * sizeof(float));
  float* const data = memory.as<float>();
  std::vector<float> first;
  for (int run = 0; run < 3; ++run) {
    for (std::size_t i = 0; i < count; ++i) {
      data[i] = 1.0F / static_cast<float>(1 + value(c.rank(), i, 5003));
    }
    c.all_reduce({data, count}, ReduceOp::average).synchronize();
    if (run == 0) first.assign(data, data + count);
    check(has_bits(first, {data, count}), "runs differ");
  }
  std::vector<float> of_root = first;
  c.broadcast({of_root.data(), count}, 0).synchronize();
  check(has_bits(first, of_root), "ranks differ");
}

void check_a_passed_deadline_leaves_a_message_under_way(Communicator& c) {
  float value = 5;
  if (c.rank() == 1) {
    c.barrier(kDeferred).synchronize();
    value = 7;
    return c.send({&value, 1}, 0, kDeferred).synchronize();
  }
  const Work recv = c.recv({&value, 1}, 1, kDeferred);
  for (const double wait_s : {0.0, 0.02}) {
    std::string error = "no timeout";
    try {
      recv.synchronize(deadline_after(wait_s));
    } catch (const CommTimeout& timeout) {
      error = timeout.what();
    }
    check(error.find("recv of 4 bytes from rank 1") != std::string::npos, error);
  }
  c.barrier(kDeferred).synchronize();
  recv.synchronize();
  check(value == 7, "wrong value");
}

// The last rank sends first; each of the others sends when rank 0 has told it to.
void check_the_first_of_many_messages_is_heard(Communicator& c) {
  float value = static_cast<float>(c.rank());
  if (c.rank() > 0) {
    if (c.rank() + 1 < c.size()) c.recv({&value, 1}, 0, kDeferred).synchronize();
    return c.send({&value, 1}, 0, kDeferred).synchronize();
  }
  const auto size = static_cast<std::size_t>(c.size());
  std::vector<float> heard(size, -1);
  std::vector<Work> works(size);
  for (int peer = 1; peer < c.size(); ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    works[p] = c.recv({&heard[p], 1}, peer, kDeferred);
  }
  for (int peer = c.size() - 1; peer > 0; --peer) {
    const auto p = static_cast<std::size_t>(peer);
    c.wait_until([&] {
      for (std::size_t w = 1; w < p; ++w) check(!works[w].is_done(), "a message before its time");
      return works[p].is_done();
    });
    works[p].synchronize();
    check(heard[p] == static_cast<float>(peer), "wrong value");
    float next = static_cast<float>(peer - 1);
    if (peer > 1) c.send({&next, 1}, peer - 1, kDeferred).synchronize();
  }
}

}  // namespace ddpbench::comm::testing
