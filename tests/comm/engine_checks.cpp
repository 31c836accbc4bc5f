// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/engine_checks.h"

#include <fmt/format.h>

#include <array>
#include <numeric>
#include <vector>

#include "tests/comm/conformance.h"
#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {
namespace {

template <void (*function)(Communicator&, bool)>
void unregistered(Communicator& c) {
  function(c, false);
}

void registered_buffers(Communicator& c) {
  check_all_reduce_for_every_count(c, true);
  check_mixed_memory(c, true);
}

// The numbers of message `message` from one rank to another.
std::vector<float> letter(int from, int to, int message, std::size_t count) {
  std::vector<float> data(count);
  std::iota(data.begin(), data.end(), static_cast<float>(from * 1000 + to * 100 + message * 10));
  return data;
}

void messages_around_a_ring(Communicator& c) {
  const int right = (c.rank() + 1) % c.size(), left = (c.rank() + c.size() - 1) % c.size();
  for (const CallOptions& start : {kNow, kDeferred}) {
    for (const std::size_t count : {0UL, 1UL, 4099UL, 1'200'003UL}) {
      const std::vector<float> out = letter(c.rank(), right, 1, count);
      std::vector<float> in(count);
      const Work send = c.send({const_cast<float*>(out.data()), count}, right, start);
      const Work recv = c.recv({in.data(), count}, left, start);
      send.synchronize();
      recv.synchronize();
      check(in == letter(left, c.rank(), 1, count), fmt::format("{} floats are wrong", count));
    }
  }
}

void messages_in_the_order_of_issue(Communicator& c) {
  if (c.rank() > 1 || c.size() == 1) return;
  std::vector<std::vector<float>> data;
  std::vector<Work> works;
  for (int m = 0; m < 12; ++m) {
    const std::size_t count = static_cast<std::size_t>(m) * 1717;
    if (c.rank() == 0) {
      data.push_back(letter(0, 1, m, count));
      works.push_back(c.send({data.back().data(), count}, 1, m % 2 ? kNow : kDeferred));
    } else {
      data.emplace_back(count);
      works.push_back(c.recv({data.back().data(), count}, 0, m % 3 ? kNow : kDeferred));
    }
  }
  // Waiting in the opposite order makes all of them progress.
  for (auto work = works.rbegin(); work != works.rend(); ++work) work->synchronize();
  for (int m = 0; m < 12 && c.rank() == 1; ++m) {
    const auto& got = data[static_cast<std::size_t>(m)];
    check(got == letter(0, 1, m, got.size()), fmt::format("message {} is wrong", m));
  }
}

void several_calls_in_flight(Communicator& c) {
  std::vector<std::vector<float>> data;
  std::vector<Work> works;
  for (int i = 0; i < 8; ++i) {
    data.emplace_back(static_cast<std::size_t>(1 + i * 9001), static_cast<float>(c.rank() + i));
  }
  for (auto& one : data) {
    works.push_back(c.all_reduce({one.data(), one.size()}, ReduceOp::sum, kNow));
  }
  const int sum = c.size() * (c.size() - 1) / 2;
  for (std::size_t i = data.size(); i-- > 0;) {
    works[i].synchronize();
    const auto wanted = static_cast<float>(sum + c.size() * static_cast<int>(i));
    for (const float got : data[i]) check(got == wanted, fmt::format("call {} is wrong", i));
  }
}

void groups_of_messages_and_collectives(Communicator& c) {
  const int right = (c.rank() + 1) % c.size(), left = (c.rank() + c.size() - 1) % c.size();
  std::vector<float> out = letter(c.rank(), right, 3, 70'001), in(70'001);
  std::vector<float> data(10'007, 1);
  c.group_start();
  const Work reduced = c.all_reduce({data.data(), data.size()}, ReduceOp::sum, kNow);
  const Work sent = c.send({out.data(), out.size()}, right, kNow);
  const Work received = c.recv({in.data(), in.size()}, left, kNow);
  c.group_end();
  received.synchronize();
  sent.synchronize();
  reduced.synchronize();
  check(in == letter(left, c.rank(), 3, in.size()), "the message is wrong");
  for (const float got : data) check(got == static_cast<float>(c.size()), "the sum is wrong");
}

constexpr std::array<EngineCheck, 17> kChecks = {{
    {"AllReduceForEveryCount", unregistered<check_all_reduce_for_every_count>},
    {"AllReduceOfEveryType", unregistered<check_all_reduce_of_every_type>},
    {"AllReduceOfNarrowTypes", unregistered<check_all_reduce_of_narrow_types>},
    {"AllReduceWhereABufferDoesNotBegin",
     unregistered<check_all_reduce_where_a_buffer_does_not_begin>},
    {"Reduce", unregistered<check_reduce>},
    {"Broadcast", unregistered<check_broadcast>},
    {"AllGather", unregistered<check_all_gather>},
    {"ReduceScatter", unregistered<check_reduce_scatter>},
    {"ScatterAndGather", unregistered<check_scatter_and_gather>},
    {"MixedMemory", unregistered<check_mixed_memory>},
    {"AllReduceIsBitIdentical", unregistered<check_all_reduce_is_bit_identical>},
    {"RegisteredBuffers", registered_buffers},
    {"MessagesAroundARing", messages_around_a_ring},
    {"MessagesInTheOrderOfIssue", messages_in_the_order_of_issue},
    {"SeveralCallsInFlight", several_calls_in_flight},
    {"FirstOfManyMessages", check_the_first_of_many_messages_is_heard},
    {"GroupsOfMessagesAndCollectives", groups_of_messages_and_collectives},
}};

}  // namespace

std::span<const EngineCheck> engine_checks() { return kChecks; }

}  // namespace ddpbench::comm::testing
