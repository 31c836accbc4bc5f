// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/report_inbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>

#include "parallel/comm/store/store.h"
#include "reports/exports/trace.h"

namespace ddpbench::bench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::shared_ptr<comm::Store> connected(const ReportInbox& inbox) {
  comm::TcpStoreOptions options;
  std::istringstream(inbox.words()) >> options.host >> options.port >> options.secret;
  return comm::connect_tcp_store(options);
}

TEST(ReportInbox, HasEachReportOnceWithItsHost) {
  ReportInbox inbox("127.0.0.1");
  EXPECT_THAT(inbox.take(0.1), IsEmpty());
  EXPECT_TRUE(send_to_inbox(inbox.words(), {1, "first"}));
  EXPECT_TRUE(send_to_inbox(inbox.words(), {0, "second report"}));
  EXPECT_THAT(inbox.take(0.1), ElementsAre(HostReport{1, "first"}, HostReport{0, "second report"}));
  EXPECT_THAT(inbox.take(0.1), IsEmpty());
}

// Their ranks died after they were counted.
TEST(ReportInbox, IsNotHeldUpByReportsThatNeverCome) {
  ReportInbox inbox("127.0.0.1");
  connected(inbox)->add(comm::store_counter("report"), 2);
  EXPECT_TRUE(send_to_inbox(inbox.words(), {0, "report"}));
  EXPECT_THAT(inbox.take(0.1), ElementsAre(HostReport{0, "report"}));
  EXPECT_THAT(inbox.take(0.1), IsEmpty());
}

TEST(ReportInbox, DropsAReportThatIsOlderThanTheOneThatCame) {
  ReportInbox inbox("127.0.0.1");
  const auto store = connected(inbox);
  store->add(comm::store_counter("report"), 3);
  const std::string part = "0 " + report::trace_texts({}).at(0);
  store->set(comm::store_item("report", 2), "0 last");
  EXPECT_THAT(inbox.take(0.1), ElementsAre(HostReport{0, "last"}));
  store->set(comm::store_item("report", 0), "0 first");
  store->set(comm::store_item("report", 1), part);
  EXPECT_THAT(inbox.take(0.1), ElementsAre(HostReport{0, part.substr(2)}));
}

TEST(ReportInbox, IsReachedByNobodyWithoutItsSecret) {
  ReportInbox inbox("127.0.0.1");
  const std::string words = inbox.words();
  EXPECT_FALSE(send_to_inbox(words.substr(0, words.rfind(' ')) + " another", {0, "report"}));
  EXPECT_THAT(inbox.take(0.1), IsEmpty());
}

}  // namespace
}  // namespace ddpbench::bench
