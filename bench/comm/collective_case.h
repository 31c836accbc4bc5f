// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The collectives as measurements call them, with the input of each rank and its expected output.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "parallel/comm/communicator.h"

namespace ddpbench::bench {

// Integers for the ranks' input. They are chosen so that every partial result in any order is exact
// in the type: a result is right to the last bit or it is wrong.
class TestPattern {
 public:
  // Throws ConfigError when the type is too narrow for the sums of so many ranks.
  TestPattern(DataType type, comm::ReduceOp op, int ranks);
  std::int64_t value(int rank, std::size_t index) const;
  std::int64_t reduced(std::size_t index) const;  // over all ranks

 private:
  comm::ReduceOp op_;
  int ranks_;
  std::uint64_t values_ = 1;  // number of different values
  std::int64_t factor_ = 1;   // makes averages whole
};

// Device memory of one rank for one call. `count` elements are the whole, whose bytes are the size
// that nccl-tests names. `in` and `out` have room for that many.
struct CollectiveMemory {
  std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t count = 0;
  DataType type = DataType::fp32;
  comm::ReduceOp op = comm::ReduceOp::sum;
};

struct Place {
  int rank = 0;
  int size = 1;
  std::size_t count = 0;  // as in CollectiveMemory
};

// A collective that this rank has issued. A shift round the ring is two calls.
struct IssuedCollective {
  std::array<comm::Work, 2> works;

  // Does what Work::wait does, for both.
  void wait(Stream& stream) const {
    for (const comm::Work& work : works) work.wait(stream);
  }
  void synchronize() const {
    for (const comm::Work& work : works) work.synchronize();
  }
};

struct CollectiveCase {
  std::string_view name;
  bool reduces = false;
  bool in_parts = false;  // the whole is cut into one part per rank
  bool in_place = false;  // results are in `in`
  // Rooted collectives have root 0.
  IssuedCollective (*issue)(comm::Communicator& c, const CollectiveMemory& memory,
                            const comm::CallOptions& options) = nullptr;
  // The number of elements that this rank gets, and their values.
  std::size_t (*results)(const Place& place) = nullptr;
  std::int64_t (*expected)(const TestPattern& pattern, const Place& place,
                           std::size_t index) = nullptr;

  bool moves_data() const { return expected != nullptr; }  // barrier does not
};

// all_reduce, reduce, broadcast, all_gather, reduce_scatter, scatter, gather, send_recv (each rank
// sends to the next and receives from the one before), barrier.
std::span<const CollectiveCase> collective_cases();
// Returns null when there is none.
const CollectiveCase* find_collective(std::string_view name);

// The elements of a call: `bytes`, rounded down to whole elements and to equal parts.
std::size_t whole_count(const CollectiveCase& collective, std::size_t bytes, DataType type,
                        int ranks);

// Writes the input of `rank` from element `first` of the whole on. `part` is in host memory.
void fill_input(const comm::Elements& part, std::size_t first, int rank,
                const TestPattern& pattern);
// Counts the wrong elements of `part`. It is in host memory and begins with element `first` of what
// the rank at `place` gets.
std::size_t count_wrong(const CollectiveCase& collective, const comm::Elements& part,
                        std::size_t first, const Place& place, const TestPattern& pattern);

}  // namespace ddpbench::bench
