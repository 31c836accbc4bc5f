// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What every library's link has in common, over a link that the tests control.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "parallel/comm/store/store.h"
#include "parallel/comm/wire/wire_communicator.h"

namespace ddpbench::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A peer that announces each message, and whose data never arrives: it was stopped in between.
class StuckLink final : public WireLink {
 public:
  std::unique_ptr<Transfer> send(int peer, const Slot&, const void*, std::size_t) override {
    return std::make_unique<Transfer>(peer);
  }
  std::unique_ptr<Transfer> recv(int peer, const Slot& slot, void*, std::size_t bytes) override {
    Notice notice;
    notice.kind = NoticeKind::message;
    notice.number = slot.number;
    notice.count = bytes / sizeof(float);
    hear_(peer, notice);
    return std::make_unique<Transfer>(peer);
  }
  bool wait(Transfer&) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return false;
  }
  void listen(std::function<void(int, const Notice&)> hear, std::function<void(int)>) override {
    hear_ = std::move(hear);
  }
  void tell(int, const Notice&) noexcept override {}
  void stop() noexcept override {}

 private:
  std::function<void(int, const Notice&)> hear_;
};

class WireMessages : public ::testing::TestWithParam<Start> {
 protected:
  std::unique_ptr<Communicator> connect() {
    return make_wire_communicator(
        "stuck", *store_, 0, 2,
        [](Store&, int, const std::vector<int>&, const EngineOptions&) {
          return std::make_unique<StuckLink>();
        },
        options_);
  }

  const std::shared_ptr<Store> store_ = make_local_store();
  EngineOptions options_{.timeout_s = 0.1};
};

// The rank that waits is not to blame, so this must be told from an error of its own.
TEST_P(WireMessages, ThatAreCutShortAtTheDeadlineAreTimeouts) {
  const auto communicator = connect();
  std::array<float, 4> data{};
  const auto receive = [&] {
    communicator->recv({data.data(), data.size()}, 1, {.after = nullptr, .start = GetParam()})
        .synchronize();
  };
  try {
    receive();
    FAIL() << "nothing has arrived";
  } catch (const CommTimeout& late) {
    EXPECT_THAT(late.what(), AllOf(HasSubstr("from rank 1"), HasSubstr("on its way")));
  }
  EXPECT_THROW(receive(), CommError) << "the stream of messages is broken";
}

INSTANTIATE_TEST_SUITE_P(Starts, WireMessages, ::testing::Values(Start::deferred, Start::now),
                         [](const auto& start) {
                           return start.param == Start::now ? "AtOnce" : "Deferred";
                         });

}  // namespace
}  // namespace ddpbench::comm
