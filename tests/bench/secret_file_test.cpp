// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The file by which the ranks of a host learn their secret: who can read it, and what becomes of
// files that killed jobs left.
#include "bench/launchers/secret_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SecretFileTest : public testing::Test {
 protected:
  SecretFileTest() {
    std::string pattern = fs::temp_directory_path() / "ddpbench-secret-XXXXXX";
    directory = ::mkdtemp(pattern.data());
    environment.job = "environment:none:29500:0";
    environment.runtime_directory = directory;
    environment.temporary_directory = directory;
  }
  ~SecretFileTest() override {
    std::error_code ignored;
    fs::remove_all(directory, ignored);
  }

  static mode_t mode_of(const fs::path& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }
  std::string error_of(const std::function<void()>& action) const {
    try {
      action();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no ConfigError";
  }
  // Runs `action` in a child that is killed as soon as it is done.
  static void in_killed_process(const std::function<void()>& action) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      action();
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
  }

  fs::path directory;
  launch::RankEnvironment environment;
};

TEST_F(SecretFileTest, TellsTheUsersRanksPortAndSecretAndNobodyElse) {
  EXPECT_FALSE(read_secret_file(environment));
  {
    const SecretFile file(environment, {4711, "hush"});
    const auto key = read_secret_file(environment);
    // A process asks for locks of others, not for its own file's: those of another open file count.
    ASSERT_TRUE(key);
    EXPECT_EQ(key->port, 4711);
    EXPECT_EQ(key->secret, "hush");
    EXPECT_EQ(mode_of(secret_file_path(environment)), 0600U);
    EXPECT_EQ(mode_of(directory / "ddpbench"), 0700U);
  }
  EXPECT_FALSE(read_secret_file(environment));
  EXPECT_TRUE(fs::is_empty(directory / "ddpbench"));
}

TEST_F(SecretFileTest, CannotBeReachedByAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const SecretFile file(environment, {4711, "hush"});
  fs::permissions(directory, fs::perms::others_exec | fs::perms::others_read,
                  fs::perm_options::add);
  const std::string path = secret_file_path(environment);
  const pid_t pid = ::fork();
  if (pid == 0) {
    constexpr uid_t kNobody = 65534;
    if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) ::_exit(2);
    ::_exit(::access(path.c_str(), R_OK) == 0 || ::access(directory.c_str(), R_OK) != 0 ? 1 : 0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(SecretFileTest, IsForOneJobAtATime) {
  const SecretFile file(environment, {4711, "hush"});
  EXPECT_THAT(error_of([&] {
                SecretFile(environment, {4712, "other"});
              }),
              HasSubstr("another job of yours"));
  EXPECT_EQ(read_secret_file(environment)->secret, "hush");
  launch::RankEnvironment other = environment;
  other.job = "environment:none:29501:0";
  const SecretFile second(other, {4713, "third"});
  EXPECT_EQ(read_secret_file(other)->secret, "third");
  EXPECT_EQ(read_secret_file(environment)->secret, "hush");
}

TEST_F(SecretFileTest, ThatAKilledJobLeftIsNotReadAndIsReplaced) {
  in_killed_process([&] { new SecretFile(environment, {4711, "stale"}); });
  EXPECT_TRUE(fs::exists(secret_file_path(environment)));
  EXPECT_FALSE(read_secret_file(environment));
  {
    const SecretFile file(environment, {4713, "fresh"});
    EXPECT_EQ(read_secret_file(environment)->secret, "fresh");
  }
  launch::RankEnvironment other = environment;
  other.job = "environment:none:29501:0";
  in_killed_process([&] { new SecretFile(other, {4712, "stale"}); });
  EXPECT_TRUE(fs::exists(secret_file_path(other)));
  const SecretFile file(environment, {4714, "fresh"});
  EXPECT_FALSE(fs::exists(secret_file_path(other))) << "what other jobs left is removed, too";
}

TEST_F(SecretFileTest, IsNotFollowedThroughALinkNorReadWhereOthersCouldWrite) {
  { const SecretFile file(environment, {4711, "hush"}); }
  const std::string path = secret_file_path(environment);
  std::ofstream(directory / "planted") << "4711 planted\n";
  fs::create_symlink(directory / "planted", path);
  EXPECT_FALSE(read_secret_file(environment));
  fs::remove(path);
  std::ofstream(path) << "4711 planted\n";
  ::chmod(path.c_str(), 0644);
  EXPECT_THAT(error_of([&] { read_secret_file(environment); }), HasSubstr("has mode 0644"));
}

TEST_F(SecretFileTest, RefusesAFolderThatOthersCanReach) {
  fs::create_directory(directory / "ddpbench");
  ::chmod((directory / "ddpbench").c_str(), 0755);
  EXPECT_THAT(error_of([&] {
                SecretFile(environment, {4711, "hush"});
              }),
              testing::AllOf(HasSubstr("has mode 0755"), HasSubstr(kSecretLine)));
  EXPECT_THAT(error_of([&] { read_secret_file(environment); }), HasSubstr("has mode 0755"));
  if (::geteuid() != 0) return;
  ::chmod((directory / "ddpbench").c_str(), 0700);
  ASSERT_EQ(::chown((directory / "ddpbench").c_str(), 65534, 65534), 0);
  EXPECT_THAT(error_of([&] { read_secret_file(environment); }), HasSubstr("belongs to user 65534"));
}

TEST_F(SecretFileTest, LiesBelowTheTemporaryDirectoryWhereThereIsNoRuntimeDirectory) {
  environment.runtime_directory = "/no/such/folder";
  const std::string folder = directory / ("ddpbench-" + std::to_string(::geteuid()));
  EXPECT_THAT(secret_file_path(environment), testing::StartsWith(folder + "/job-"));
  environment.runtime_directory = "";
  const SecretFile file(environment, {4711, "hush"});
  EXPECT_EQ(mode_of(folder), 0700U);
  EXPECT_EQ(read_secret_file(environment)->secret, "hush");
}

TEST_F(SecretFileTest, IsForTheRanksOfOneHost) {
  EXPECT_EQ(error_of([&] { ensure_one_host(environment); }), "no ConfigError");
  environment.master_address = "localhost";
  EXPECT_EQ(error_of([&] { ensure_one_host(environment); }), "no ConfigError");
  environment.master_address = "192.0.2.1";  // reserved for documentation (RFC 5737)
  EXPECT_THAT(error_of([&] { ensure_one_host(environment); }),
              testing::AllOf(HasSubstr("MASTER_ADDR=192.0.2.1"), HasSubstr(kSecretLine)));
  environment.master_address = "127.0.0.1";
  environment.several_hosts = "LOCAL_WORLD_SIZE=2 but WORLD_SIZE=4";
  EXPECT_THAT(error_of([&] { ensure_one_host(environment); }),
              testing::AllOf(HasSubstr("LOCAL_WORLD_SIZE=2"), HasSubstr(kSecretLine)));
}

}  // namespace
}  // namespace ddpbench::bench
