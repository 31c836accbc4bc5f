// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/report_inbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/entropy.h"
#include "base/error.h"

namespace ddpbench::bench {
namespace {

constexpr std::size_t kInboxSecretBytes = 32;
constexpr double kDeliver_s = 1;
// An announced report follows at once, unless its rank has died between the two.
constexpr double kFollow_s = 0.1;
constexpr const char* kAnnounced = "announced";  // counts the reports
constexpr const char* kReport = "report/";       // and its number: "HOST REPORT"

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
std::vector<HostReport> ReportInbox::take() {
  std::vector<HostReport> reports;
  try {
    const std::int64_t announced = store_->add(kAnnounced, 0);
    while (announced_ < announced) on_the_way_.push_back(announced_++);
    while (!on_the_way_.empty()) {
      const std::string key = kReport + std::to_string(on_the_way_.front());
      reports.push_back(decoded(store_->get(key, kFollow_s)));
      on_the_way_.erase(on_the_way_.begin());
    }
  } catch (const CommError&) {
    // One whose rank has died must not hold up those behind it.
    if (!on_the_way_.empty()) std::ranges::rotate(on_the_way_, on_the_way_.begin() + 1);
  }
  return reports;
}

bool send_to_inbox(const std::string& words, const HostReport& report) {
  comm::TcpStoreOptions options;
  std::istringstream(words) >> options.host >> options.port >> options.secret;
  options.timeout_s = kDeliver_s;
  try {
    const auto store = comm::connect_tcp_store(options);
    const std::int64_t number = store->add(kAnnounced, 1) - 1;
    store->set(kReport + std::to_string(number), encoded(report));
    return true;
  } catch (const Error&) {
    return false;  // the supervisor cannot be reached from here
  }
}

}  // namespace ddpbench::bench
