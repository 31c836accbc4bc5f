// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/report_inbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "reports/exports/trace.h"

namespace ddpbench::bench {
namespace {

constexpr std::size_t kInboxSecretBytes = 32;
constexpr double kDeliver_s = 1;
// For one that is there.
constexpr double kLeast_s = 0.02;
constexpr const char* kReportFeed = "report";  // of "HOST REPORT"

std::string encoded(const HostReport& report) {
  return fmt::format("{} {}", report.host, report.text);
}

HostReport decoded(const std::string& words) {
  HostReport report;
  const char* const end = words.data() + words.size();
  const char* const space = std::from_chars(words.data(), end, report.host).ptr;
  if (space != end) report.text.assign(space + 1, end);
  return report;
}

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

// A store that does not answer in time, as on a busy host, is asked again at the next look.
std::vector<HostReport> ReportInbox::take(double wait_s) {
  std::vector<HostReport> reports;
  try {
    const std::int64_t count = store_->add(comm::store_counter(kReportFeed), 0);
    while (counted_ < count) on_the_way_.push_back(counted_++);
  } catch (const CommError&) {
    return reports;
  }
  // One whose rank has died must not hold up those behind it.
  const double until_s = steady_s() + wait_s;
  for (const std::int64_t number : std::exchange(on_the_way_, {})) {
    const double limit_s = std::max(until_s - steady_s(), kLeast_s);
    try {
      HostReport report = decoded(store_->get(comm::store_item(kReportFeed, number), limit_s));
      if (is_current(report, number)) reports.push_back(std::move(report));
    } catch (const CommError&) {
      on_the_way_.push_back(number);
    }
  }
  return reports;
}

// Parts of a trace may come in any order.
bool ReportInbox::is_current(const HostReport& report, std::int64_t number) {
  if (report::is_trace_text(report.text)) return true;
  std::int64_t& newest = newest_.try_emplace(report.host, -1).first->second;
  if (number < newest) return false;
  newest = number;
  return true;
}

bool send_to_inbox(const std::string& words, const HostReport& report) {
  comm::TcpStoreOptions options;
  std::istringstream(words) >> options.host >> options.port >> options.secret;
  options.timeout_s = kDeliver_s;
  try {
    const auto store = comm::connect_tcp_store(options);
    comm::store_append(*store, kReportFeed, encoded(report));
    return true;
  } catch (const Error&) {
    return false;  // the supervisor cannot be reached from here
  }
}

}  // namespace ddpbench::bench
