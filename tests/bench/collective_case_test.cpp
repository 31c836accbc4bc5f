// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Every collective gives exactly the expected values in every type; planted errors are counted.
#include "bench/comm/collective_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/error.h"
#include "parallel/comm/comm_module.h"
#include "parallel/comm/communicator.h"

namespace ddpbench::bench {
namespace {

constexpr std::size_t kBytes = 96 << 10;  // more than a mailbox

struct Setting {
  DataType type;
  comm::ReduceOp op;
};

class AllCollectives : public testing::TestWithParam<Setting> {};

constexpr comm::CallOptions kBlocking{.after = nullptr, .start = comm::Start::deferred};
constexpr std::size_t kPiece = 1001;  // elements written and checked at once

template <typename Use>
void visit_pieces(std::byte* data, std::size_t count, DataType type, Use&& use) {
  for (std::size_t first = 0; first < count; first += kPiece) {
    use(comm::Elements{data + first * size_of(type), std::min(kPiece, count - first), type}, first);
  }
}

void fill_in_pieces(const CollectiveMemory& memory, int rank, const TestPattern& pattern) {
  visit_pieces(memory.in, memory.count, memory.type,
               [&](const comm::Elements& piece, std::size_t first) {
                 fill_input(piece, first, rank, pattern);
               });
}

std::size_t wrong_in_pieces(const CollectiveCase& collective, const CollectiveMemory& memory,
                            const Place& place, const TestPattern& pattern) {
  std::size_t wrong = 0;
  visit_pieces(collective.in_place ? memory.in : memory.out, collective.results(place), memory.type,
               [&](const comm::Elements& piece, std::size_t first) {
                 wrong += count_wrong(collective, piece, first, place, pattern);
               });
  return wrong;
}

// Runs the collective on three threads; counts wrong elements, after `spoil` changed results.
template <typename Spoil>
std::size_t wrong_of(const CollectiveCase& collective, const Setting& setting, Spoil&& spoil) {
  constexpr int kRanks = 3;
  const TestPattern pattern(setting.type, collective.reduces ? setting.op : comm::ReduceOp::maximum,
                            kRanks);
  auto worlds = comm::make_thread_shm(kRanks, {});
  std::atomic<std::size_t> wrong = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<std::byte> in(kBytes), out(kBytes);
      const CollectiveMemory memory{in.data(), out.data(),
                                    whole_count(collective, kBytes, setting.type, kRanks),
                                    setting.type, setting.op};
      fill_in_pieces(memory, rank, pattern);
      collective.issue(*worlds[static_cast<std::size_t>(rank)], memory, kBlocking).synchronize();
      spoil(rank, collective.in_place ? in : out);
      wrong += wrong_in_pieces(collective, memory, {rank, kRanks, memory.count}, pattern);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

TEST_P(AllCollectives, AreExact) {
  for (const CollectiveCase& collective : collective_cases()) {
    EXPECT_EQ(wrong_of(collective, GetParam(), [](int, auto&) {}), 0u) << collective.name;
  }
}

TEST_P(AllCollectives, ShowAPlantedError) {
  for (const CollectiveCase& collective : collective_cases()) {
    if (!collective.moves_data()) continue;
    const std::size_t wrong = wrong_of(collective, GetParam(), [](int rank, auto& result) {
      if (rank == 0)
        result[size_of(GetParam().type) * 5 + size_of(GetParam().type) - 1] ^= std::byte{1};
    });
    EXPECT_EQ(wrong, 1u) << collective.name;
  }
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const DataType type : {DataType::fp32, DataType::fp64, DataType::bf16, DataType::fp16,
                              DataType::int32, DataType::int64, DataType::uint8}) {
    for (const auto op : {comm::ReduceOp::sum, comm::ReduceOp::average, comm::ReduceOp::maximum}) {
      all.push_back({type, op});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(, AllCollectives, testing::ValuesIn(settings()), [](const auto& p) {
  return std::string(to_string(p.param.type)) + "_" + std::string(to_string(p.param.op));
});

TEST(TestPattern, DiffersBetweenRanksAndNeighbours) {
  const TestPattern pattern(DataType::fp32, comm::ReduceOp::sum, 4);
  int equal_ranks = 0, equal_neighbours = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    equal_ranks += pattern.value(0, i) == pattern.value(1, i);
    equal_neighbours += pattern.value(0, i) == pattern.value(0, i + 1);
  }
  EXPECT_LT(equal_ranks, 5);
  EXPECT_LT(equal_neighbours, 5);
}

TEST(TestPattern, RefusesSumsThatAreNotExact) {
  EXPECT_THROW(TestPattern(DataType::uint8, comm::ReduceOp::sum, 256), ConfigError);
  EXPECT_THROW(TestPattern(DataType::bf16, comm::ReduceOp::average, 17), ConfigError);
  EXPECT_NO_THROW(TestPattern(DataType::uint8, comm::ReduceOp::maximum, 256));
}

}  // namespace
}  // namespace ddpbench::bench
