// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/launch/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "base/error.h"

namespace ddpbench::launch {
namespace {

// What `allow` says in a process with these limits: the soft limit that it leaves, or the error's
// text.
std::string after(rlim_t soft, rlim_t hard, const std::function<void()>& allow) {
  int told[2];
  if (::pipe(told) != 0) return "no pipe";
  const int pid = ::fork();
  if (pid == 0) {
    std::string text;
    const rlimit limit{soft, hard};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::_exit(1);
    try {
      allow();
      rlimit after{};
      ::getrlimit(RLIMIT_NOFILE, &after);
      text = std::to_string(after.rlim_cur);
    } catch (const UnavailableError& error) {
      text = error.what();
    }
    [[maybe_unused]] const auto written = ::write(told[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(told[1]);
  char text[512];
  const auto length = ::read(told[0], text, sizeof text);
  ::close(told[0]);
  ::waitpid(pid, nullptr, 0);
  return {text, length > 0 ? static_cast<std::size_t>(length) : 0};
}

std::string allowed(rlim_t soft, rlim_t hard, std::size_t ranks) {
  return after(soft, hard, [ranks] { allow_open_files(ranks, 1, 6); });
}

TEST(OpenFiles, AreLeftAloneWhereTheySuffice) { EXPECT_EQ(allowed(500, 500, 8), "500"); }

TEST(OpenFiles, OfTheSoftLimitAreRaised) {
  const std::string after = allowed(20, 500, 8);
  ASSERT_NE(after.find_first_of("0123456789"), std::string::npos) << after;
  EXPECT_GE(std::stoul(after), 8U + 6);
  EXPECT_LT(std::stoul(after), 500U);
}

TEST(OpenFiles, BeyondTheHardLimitAreRefusedWithBothNumbers) {
  const std::string text = allowed(20, 20, 8);
  EXPECT_NE(text.find("8 processes need up to "), std::string::npos) << text;
  EXPECT_NE(text.find("but 20 are allowed"), std::string::npos) << text;
}

TEST(OpenFiles, OfAJoinedRankAreRaisedAsFarAsTheHardLimitAllows) {
  const auto joined = [] { allow_open_files_of_listener(2); };
  const std::string raised = after(40, 4000, joined);
  EXPECT_GE(std::stoul(raised), 64U + 2) << raised;
  EXPECT_LT(std::stoul(raised), 1024U) << "what many systems have, is enough for two ranks";
  EXPECT_EQ(after(40, 60, joined), "60");
  EXPECT_EQ(after(2000, 4000, joined), "2000");
}

TEST(OpenFiles, GrowWithTheRanks) {
  const std::size_t few = std::stoul(allowed(4, 4000, 2));
  EXPECT_GT(std::stoul(allowed(4, 4000, 64)), few + 62);
}

}  // namespace
}  // namespace ddpbench::launch
