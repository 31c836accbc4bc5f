// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/report_inbox.h"

#include <fmt/format.h>

#include <sstream>

#include "base/entropy.h"
#include "base/error.h"

namespace ddpbench::bench {
namespace {

constexpr std::size_t kInboxSecretBytes = 32;
constexpr double kDeliver_s = 1;
constexpr const char* kReportFeed = "report";
// Counts the items of the feed that are there.
constexpr const char* kReportCount = "reports";

}  // namespace

ReportInbox::ReportInbox(const std::string& address) {
  comm::TcpStoreOptions options;
  options.host = address;
  options.secret = random_hex(kInboxSecretBytes);
  options.timeout_s = kDeliver_s;
  server_ = comm::make_tcp_store_server(options);
  options.port = server_->port();
  store_ = comm::connect_tcp_store(options);
  words_ = fmt::format("{} {} {}", options.host, options.port, options.secret);
}

std::optional<std::string> ReportInbox::take() {
  const std::int64_t count = store_->add(kReportCount, 0);
  if (count == taken_) return std::nullopt;
  taken_ = count;
  return store_->get(comm::store_item(kReportFeed, count - 1), kDeliver_s);
}

bool send_to_inbox(const std::string& words, const std::string& report) {
  comm::TcpStoreOptions options;
  std::istringstream(words) >> options.host >> options.port >> options.secret;
  options.timeout_s = kDeliver_s;
  try {
    const auto store = comm::connect_tcp_store(options);
    comm::store_append(*store, kReportFeed, report);
    store->add(kReportCount, 1);
    return true;
  } catch (const Error&) {
    return false;  // the supervisor cannot be reached from here
  }
}

}  // namespace ddpbench::bench
