// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/collective_case.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "kernels/runtime/bfloat16.h"

namespace ddpbench::bench {
namespace {

using comm::CallOptions;
using comm::Communicator;
using comm::ReduceOp;
constexpr std::uint64_t kMostValues = 8191;

template <typename T>
T element(std::int64_t value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return BFloat16::round(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

// Calls `use` with a null pointer of the C++ type, and with the largest integer up to which every
// integer is a value of the type.
template <typename Use>
auto with_type(DataType type, Use&& use) {
  switch (type) {
    case DataType::uint8:
      return use(static_cast<std::uint8_t*>(nullptr), (std::int64_t{1} << 8) - 1);
    case DataType::bf16:
      return use(static_cast<BFloat16*>(nullptr), std::int64_t{1} << 8);
    case DataType::fp16:
      return use(static_cast<_Float16*>(nullptr), std::int64_t{1} << 11);
    case DataType::fp32:
      return use(static_cast<float*>(nullptr), std::int64_t{1} << 24);
    case DataType::int32:
      return use(static_cast<std::int32_t*>(nullptr), (std::int64_t{1} << 31) - 1);
    case DataType::fp64:
      return use(static_cast<double*>(nullptr), std::int64_t{1} << 53);
    case DataType::int64:
      return use(static_cast<std::int64_t*>(nullptr), std::int64_t{1} << 53);
  }
  throw InternalError("unknown data type");
}

std::size_t part(const Place& p) { return p.count / static_cast<std::size_t>(p.size); }
comm::Elements whole_in(const CollectiveMemory& m) { return {m.in, m.count, m.type}; }
comm::Elements whole_out(const CollectiveMemory& m) { return {m.out, m.count, m.type}; }
comm::Elements part_in(const Communicator& c, const CollectiveMemory& m) {
  return {m.in, part({c.rank(), c.size(), m.count}), m.type};
}
comm::Elements part_out(const Communicator& c, const CollectiveMemory& m) {
  return {m.out, part({c.rank(), c.size(), m.count}), m.type};
}

IssuedCollective one(comm::Work work) { return {{std::move(work), comm::Work()}}; }

// The calls are a group: otherwise, on devices, all ranks would send first and wait for each other.
IssuedCollective send_recv(Communicator& c, const CollectiveMemory& m, const CallOptions& o) {
  c.group_start();
  comm::Work sent = c.send(whole_in(m), (c.rank() + 1) % c.size(), o);
  comm::Work received = c.recv(whole_out(m), (c.rank() + c.size() - 1) % c.size(), o);
  c.group_end();
  return {{std::move(received), std::move(sent)}};
}

std::size_t whole(const Place& p) { return p.count; }
std::size_t whole_on_root(const Place& p) { return p.rank == 0 ? p.count : 0; }
std::int64_t parts_in_order(const TestPattern& pattern, const Place& p, std::size_t i) {
  return pattern.value(static_cast<int>(i / part(p)), i % part(p));
}
std::size_t own_part(const Place& p, std::size_t i) {
  return static_cast<std::size_t>(p.rank) * part(p) + i;
}

using C = Communicator;
using M = CollectiveMemory;
using O = CallOptions;
using Pattern = TestPattern;

//                        reduces in_parts in_place
constexpr std::array<CollectiveCase, 9> kCases = {{
    {"all_reduce", true, false, true,
     [](C& c, const M& m, const O& o) { return one(c.all_reduce(whole_in(m), m.op, o)); }, whole,
     [](const Pattern& pattern, const Place&, std::size_t i) { return pattern.reduced(i); }},
    {"reduce", true, false, true,
     [](C& c, const M& m, const O& o) { return one(c.reduce(whole_in(m), m.op, 0, o)); },
     whole_on_root,
     [](const Pattern& pattern, const Place&, std::size_t i) { return pattern.reduced(i); }},
    {"broadcast", false, false, true,
     [](C& c, const M& m, const O& o) { return one(c.broadcast(whole_in(m), 0, o)); }, whole,
     [](const Pattern& pattern, const Place&, std::size_t i) { return pattern.value(0, i); }},
    {"all_gather", false, true, false,
     [](C& c, const M& m, const O& o) { return one(c.all_gather(part_in(c, m), whole_out(m), o)); },
     whole, parts_in_order},
    {"reduce_scatter", true, true, false,
     [](C& c, const M& m, const O& o) {
       return one(c.reduce_scatter(whole_in(m), part_out(c, m), m.op, o));
     },
     part,
     [](const Pattern& pattern, const Place& p, std::size_t i) {
       return pattern.reduced(own_part(p, i));
     }},
    {"scatter", false, true, false,
     [](C& c, const M& m, const O& o) { return one(c.scatter(whole_in(m), part_out(c, m), 0, o)); },
     part,
     [](const Pattern& pattern, const Place& p, std::size_t i) {
       return pattern.value(0, own_part(p, i));
     }},
    {"gather", false, true, false,
     [](C& c, const M& m, const O& o) { return one(c.gather(part_in(c, m), whole_out(m), 0, o)); },
     whole_on_root, parts_in_order},
    {"send_recv", false, false, false, send_recv, whole,
     [](const Pattern& pattern, const Place& p, std::size_t i) {
       return pattern.value((p.rank + p.size - 1) % p.size, i);
     }},
    {"barrier", false, false, true, [](C& c, const M&, const O& o) { return one(c.barrier(o)); },
     [](const Place&) { return std::size_t{0}; }, nullptr},
}};

}  // namespace

TestPattern::TestPattern(DataType type, ReduceOp op, int ranks) : op_(op), ranks_(ranks) {
  ensure(ranks >= 1, "a pattern for {} ranks", ranks);
  const std::int64_t exact = with_type(type, [](auto*, std::int64_t largest) { return largest; });
  std::int64_t room = exact;
  if (op != ReduceOp::maximum) room /= ranks;
  if (op == ReduceOp::average) {
    factor_ = ranks;
    room /= ranks;
  }
  if (room < 1) {
    throw ConfigError(
        fmt::format("the {} of {} ranks cannot be verified in {}: it is exact up to "
                    "{} only; take a wider type or fewer ranks",
                    to_string(op), ranks, to_string(type), exact));
  }
  values_ = std::min(static_cast<std::uint64_t>(room), kMostValues);
}

// Multiplicative hashing: neighbours and ranks differ, and the period is long. An element of
// another place or rank is therefore found.
std::int64_t TestPattern::value(int rank, std::size_t index) const {
  constexpr std::uint64_t kGolden = 0x9e37'79b9'7f4a'7c15;
  const std::uint64_t mixed =
      (index + 1) * kGolden + static_cast<std::uint64_t>(rank + 1) * 0xd1b5'4a32'd192'ed03;
  const std::uint64_t upper = (mixed ^ mixed >> 29) * kGolden >> 32;
  return factor_ * static_cast<std::int64_t>(1 + (upper * values_ >> 32));
}

std::int64_t TestPattern::reduced(std::size_t index) const {
  std::int64_t result = value(0, index);
  for (int rank = 1; rank < ranks_; ++rank) {
    const std::int64_t next = value(rank, index);
    result = op_ == ReduceOp::maximum ? std::max(result, next) : result + next;
  }
  return op_ == ReduceOp::average ? result / ranks_ : result;
}

std::span<const CollectiveCase> collective_cases() { return kCases; }

const CollectiveCase* find_collective(std::string_view name) {
  const auto found = std::ranges::find(kCases, name, &CollectiveCase::name);
  return found == kCases.end() ? nullptr : &*found;
}

std::size_t whole_count(const CollectiveCase& collective, std::size_t bytes, DataType type,
                        int ranks) {
  if (!collective.moves_data()) return 0;
  const std::size_t parts = collective.in_parts ? static_cast<std::size_t>(ranks) : 1;
  return bytes / size_of(type) / parts * parts;
}

void fill_input(const comm::Elements& part, std::size_t first, int rank,
                const TestPattern& pattern) {
  with_type(part.type, [&]<typename T>(T*, std::int64_t) {
    T* const in = static_cast<T*>(part.data);
    for (std::size_t i = 0; i < part.count; ++i) in[i] = element<T>(pattern.value(rank, first + i));
  });
}

std::size_t count_wrong(const CollectiveCase& collective, const comm::Elements& part,
                        std::size_t first, const Place& place, const TestPattern& pattern) {
  return with_type(part.type, [&]<typename T>(T*, std::int64_t) {
    const T* const result = static_cast<const T*>(part.data);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < part.count; ++i) {
      const T expected = element<T>(collective.expected(pattern, place, first + i));
      wrong += result[i] == expected ? 0 : 1;
    }
    return wrong;
  });
}

}  // namespace ddpbench::bench
