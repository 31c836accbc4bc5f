// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What peers announce lies in shared memory, which may say anything.
#include "parallel/comm/shm/peers/peer_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

#include "base/error.h"

namespace ddpbench::comm {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class PeerMemoryOfProcesses : public testing::Test {
 protected:
  PeerMemoryOfProcesses() {
    memory_.add({own_.data(), own_.size()}, "unused");
    peer_.add(theirs_.view(), theirs_.handle());
  }
  const RankSlot& slot_of(int rank) const { return rank == 0 ? own_slot_ : their_slot_; }
  RankSlot own_slot_{}, their_slot_{};
  std::array<std::byte, 64> own_{};
  SharedMemory theirs_ = SharedMemory::create("peer", 4096);
  PeerMemory memory_{0, FutexScope::host, own_slot_}, peer_{1, FutexScope::host, their_slot_};
};

TEST_F(PeerMemoryOfProcesses, ResolvesWhatLiesInARegisteredBuffer) {
  EXPECT_EQ(memory_.resolve(0, {1, 16}, 48, own_slot_, {}), own_.data() + 16);
  theirs_.view().data[4000] = std::byte{7};
  EXPECT_EQ(*memory_.resolve(1, {1, 4000}, 96, their_slot_, {}), std::byte{7});
}

TEST_F(PeerMemoryOfProcesses, MapsAnotherBufferOfTheSameNumber) {
  memory_.resolve(1, {1, 0}, 16, their_slot_, {});
  peer_.remove(theirs_.view());
  const SharedMemory other = SharedMemory::create("peer", 8192);
  other.view().data[8000] = std::byte{9};
  peer_.add(other.view(), other.handle());
  EXPECT_EQ(*memory_.resolve(1, {1, 8000}, 16, their_slot_, {}), std::byte{9});
}

TEST_F(PeerMemoryOfProcesses, RefusesWhatDoesNot) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  for (const int peer : {0, 1}) {
    for (const MemoryLocation location : {MemoryLocation{1, 4096 - 8}, MemoryLocation{1, kMost}}) {
      EXPECT_THAT([&] { memory_.resolve(peer, location, 16, slot_of(peer), {}); },
                  ThrowsMessage<CommError>(HasSubstr("announces bytes")));
    }
    const MemoryLocation beyond{kMostRegistered + 1, 0};
    EXPECT_THAT([&] { memory_.resolve(peer, beyond, 16, slot_of(peer), {}); },
                ThrowsMessage<CommError>(HasSubstr("announces a buffer 65")));
  }
}

TEST_F(PeerMemoryOfProcesses, ReadsTheCopyOfWhatItCannotMap) {
  SharedPlace place{};
  const auto copied = [&](const MemoryLocation& location, std::size_t bytes) {
    return reinterpret_cast<const float*>(memory_.resolve(1, location, bytes, their_slot_, place));
  };
  std::vector<float> data(3, 7.0F);
  const MemoryLocation first = peer_.expose({data.data(), data.size()}, place);
  EXPECT_EQ(copied(first, 12)[2], 7.0F);
  data.assign(30'000, 8.0F);
  const MemoryLocation second = peer_.expose({data.data(), data.size()}, place);
  EXPECT_EQ(copied(second, 120'000)[29'999], 8.0F);
  EXPECT_THAT([&] { copied(second, 1 << 20); },
              ThrowsMessage<CommError>(HasSubstr("announces bytes")));
}

TEST_F(PeerMemoryOfProcesses, RefusesAnAddressOfAnotherProcess) {
  const MemoryLocation address{MemoryLocation::kAddress,
                               reinterpret_cast<std::uintptr_t>(own_.data())};
  EXPECT_THAT([&] { memory_.resolve(1, address, 16, their_slot_, {}); },
              ThrowsMessage<CommError>(HasSubstr("an address of its own process")));
  PeerMemory of_threads(0, FutexScope::process, own_slot_);
  EXPECT_EQ(of_threads.resolve(1, address, 16, their_slot_, {}), own_.data());
}

}  // namespace
}  // namespace ddpbench::comm
