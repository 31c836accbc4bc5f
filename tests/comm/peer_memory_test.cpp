// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What peers announce lies in shared memory, which may say anything.
#include "parallel/comm/shm/peers/peer_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "base/error.h"

namespace ddpbench::comm {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class PeerMemoryOfProcesses : public testing::Test {
 protected:
  PeerMemoryOfProcesses() { memory_.add({own_.data(), own_.size()}, {"", theirs_.handle()}); }
  std::array<std::byte, 64> own_{};
  SharedMemory theirs_ = SharedMemory::create("peer", 4096);
  PeerMemory memory_{0, FutexScope::host};
};

TEST_F(PeerMemoryOfProcesses, ResolvesWhatLiesInARegisteredBuffer) {
  EXPECT_EQ(memory_.resolve(0, {0, 16}, 48), own_.data() + 16);
  EXPECT_NE(memory_.resolve(1, {0, 4000}, 96), nullptr);
}

TEST_F(PeerMemoryOfProcesses, RefusesWhatDoesNot) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  for (const int peer : {0, 1}) {
    for (const MemoryLocation location : {MemoryLocation{0, 4096 - 8}, MemoryLocation{0, kMost}}) {
      EXPECT_THAT([&] { memory_.resolve(peer, location, 16); },
                  ThrowsMessage<CommError>(HasSubstr("announces bytes")));
    }
    EXPECT_THAT(
        [&] {
          memory_.resolve(peer, {1, 0}, 16);
        },
        ThrowsMessage<CommError>(HasSubstr("registered buffer 1")));
  }
}

TEST_F(PeerMemoryOfProcesses, RefusesAnAddressOfAnotherProcess) {
  const auto address = reinterpret_cast<std::uintptr_t>(own_.data());
  EXPECT_THAT(
      [&] {
        memory_.resolve(1, {MemoryLocation::kAddress, address}, 16);
      },
      ThrowsMessage<CommError>(HasSubstr("an address of its own process")));
  const PeerMemory of_threads(0, FutexScope::process);
  EXPECT_EQ(of_threads.resolve(1, {MemoryLocation::kAddress, address}, 16), own_.data());
}

}  // namespace
}  // namespace ddpbench::comm
