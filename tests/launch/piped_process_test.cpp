// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Processes whose streams are read as lines, and the command lines by which shells start them.
#include "parallel/launch/piped_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/text.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::launch {
namespace {

using testing::ElementsAre;
using Lines = std::vector<std::string>;

struct Written {
  Lines output, errors;
};

PipedProcess::Spec shell(const std::string& command, const Lines& arguments = {}) {
  return {{.executable = "/bin/sh",
           .arguments = shell_arguments(command, arguments),
           .environment = child_variables(1, {})}};
}

// Reads until the process has ended.
Written finish(PipedProcess& process) {
  Written written;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (bool ended = false; !ended && std::chrono::steady_clock::now() < limit;) {
    std::vector<pollfd> watched;
    process.watch(watched);
    ::poll(watched.data(), watched.size(), 1000);
    ended = process.look();
    for (std::string& line : process.take_output()) written.output.push_back(std::move(line));
    for (std::string& line : process.take_errors()) written.errors.push_back(std::move(line));
  }
  EXPECT_FALSE(process.alive());
  return written;
}

Written run(const PipedProcess::Spec& spec) {
  PipedProcess process(spec);
  return finish(process);
}

TEST(PipedProcess, HandsOnBothStreamsAsLines) {
  PipedProcess process(shell("sh -c 'echo a; echo b >&2; printf \"c\\n\\nd\"; exit 3' sh"));
  const Written written = finish(process);
  EXPECT_THAT(written.output, ElementsAre("a", "c", "", "d"));
  EXPECT_THAT(written.errors, ElementsAre("b"));
  EXPECT_EQ(process.how_ended().code, 3);
}

TEST(PipedProcess, ReadsMoreThanAPipeHolds) {
  const Written written = run(shell("seq 1 100000"));
  ASSERT_EQ(written.output.size(), 100000u);
  EXPECT_EQ(written.output.back(), "100000");
}

TEST(PipedProcess, WritesToAProcessUntilItReadsNoMore) {
  PipedProcess::Spec spec = shell("head -n 1");
  spec.has_input = true;
  PipedProcess process(spec);
  EXPECT_TRUE(process.write("one\ntwo\n"));
  EXPECT_THAT(finish(process).output, ElementsAre("one"));
  // No SIGPIPE ends this process.
  process.write("three\n");
  EXPECT_FALSE(process.write("four\n"));
}

TEST(PipedProcess, HasNothingToReadWithoutAnInput) {
  EXPECT_THAT(run(shell("cat")).output, testing::IsEmpty());
}

TEST(PipedProcess, EndsThoughAnotherProcessKeepsItsStreams) {
  EXPECT_THAT(run(shell("sh -c 'echo a; sleep 60 & exit 0' sh")).output, ElementsAre("a"));
}

// ---- command lines ----

TEST(RemoteCommand, LeavesPlainWordsAsTheyAre) {
  EXPECT_EQ(shell_quoted("/usr/bin/ddpbench"), "/usr/bin/ddpbench");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(remote_command("/opt/d/ddpbench", "word"), "exec /opt/d/ddpbench word");
}

TEST(RemoteCommand, QuotesWhatAShellWouldRead) {
  for (const std::string text : {"a b", "it's", "\"q\"", "$HOME", "`id`", "a;b", "a\nb", "*", "\\",
                                 "'", "-n", "~", "#c", "&"}) {
    // What printf gets is what was quoted.
    EXPECT_EQ(run(shell(fmt::format("sh -c {} sh", shell_quoted(fmt::format("printf '%s.' {}",
                                                                            shell_quoted(text))))))
                  .output,
              run(shell("printf '%s.'", {text})).output)
        << text;
  }
}

TEST(RemoteCommand, HandsArgumentsToTheUsersCommandWithoutReadingThem) {
  EXPECT_THAT(run(shell("printf '<%s>' 'two words'", {"$HOME", "a b", "'"})).output,
              ElementsAre("<two words><$HOME><a b><'>"));
}

}  // namespace
}  // namespace ddpbench::launch
