// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Downloads from a local server: good ones, broken ones, and what they leave behind.
#include "datasets/fetch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "datasets/catalog.h"
#include "tests/datasets/http_server.h"
#include "tests/datasets/test_files.h"

namespace ddpbench::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::ThrowsMessage;

namespace fs = std::filesystem;

// A data set "small" of four files, and a server that has them.
class FetchDataset : public testing::Test {
 protected:
  void SetUp() override {
    // libcurl reads these by itself; the local server must be asked directly.
    setenv("no_proxy", "127.0.0.1", 1);
    entry_.name = "small";
    entry_.base_url = "http://127.0.0.1:1/never-asked/";
    for (std::size_t i = 0; i < names_.size(); ++i) {
      bodies_[i] = std::string(3000 * i + 17, static_cast<char>('a' + i));
      sums_[i] = sha256_of(bodies_[i]);
      entry_.files.push_back({names_[i] + ".gz", {bodies_[i].size(), sums_[i]}});
      server_.serve("/data/" + names_[i] + ".gz", http_answer("200 OK", bodies_[i]));
    }
  }

  FetchOptions options(bool force = false) {
    return {.directory = directory_.path().string(),
            .base_url = server_.url() + "data",
            .force = force,
            .timeout_s = 1,
            .progress = [this](const std::string& line) { lines_.push_back(line); }};
  }
  void fetch(bool force = false) { fetch_files(entry_, options(force)); }

  fs::path file(std::size_t i) const { return directory_.path() / "small" / (names_[i] + ".gz"); }
  std::string url(std::size_t i) const { return server_.url() + "data/" + names_[i] + ".gz"; }

  std::vector<std::string> files_there() const {
    std::vector<std::string> names;
    for (const auto& item : fs::directory_iterator(directory_.path() / "small")) {
      names.push_back(item.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }

  const std::array<std::string, 4> names_ = {"a", "b", "c", "d"};
  std::array<std::string, 4> bodies_, sums_;
  CatalogEntry entry_;
  HttpServer server_;
  TemporaryDirectory directory_;
  std::vector<std::string> lines_;
};

TEST_F(FetchDataset, WritesEveryFileAndNothingElse) {
  fetch();
  EXPECT_THAT(files_there(), ElementsAre("a.gz", "b.gz", "c.gz", "d.gz"));
  for (std::size_t i = 0; i < names_.size(); ++i) EXPECT_EQ(read_file(file(i)), bodies_[i]);
  EXPECT_THAT(lines_, SizeIs(4));
}

TEST_F(FetchDataset, LeavesCorrectFilesAloneAndRepairsOthers) {
  fetch();
  fetch();
  EXPECT_THAT(server_.requests(), SizeIs(4));
  EXPECT_THAT(lines_.back(), HasSubstr("already there"));

  std::string damaged = bodies_[2];
  damaged[5] = '!';
  write_file(file(2), damaged);
  fs::remove(file(0));
  fetch();
  EXPECT_THAT(server_.requests(), SizeIs(6));
  EXPECT_EQ(read_file(file(2)), bodies_[2]);

  fetch(true);
  EXPECT_THAT(server_.requests(), SizeIs(10));
}

TEST_F(FetchDataset, NamesUrlAndStatusOfAMissingFile) {
  server_.serve("/data/b.gz", http_answer("404 Not Found", "no"));
  EXPECT_THAT([&] { fetch(); }, ThrowsMessage<UnavailableError>(
                                    AllOf(HasSubstr(url(1)), HasSubstr("HTTP status 404"))));
  EXPECT_THAT(files_there(), ElementsAre("a.gz"));
  server_.serve("/data/b.gz", http_answer("503 Busy", "no"));
  EXPECT_THAT([&] { fetch(); }, ThrowsMessage<UnavailableError>(HasSubstr("status 503")));
}

TEST_F(FetchDataset, RefusesADownloadThatBreaksOff) {
  server_.serve("/data/b.gz", http_answer_of_length(bodies_[1].size(), bodies_[1].substr(0, 1000)));
  EXPECT_THAT([&] { fetch(); }, ThrowsMessage<UnavailableError>(HasSubstr(url(1))));
  EXPECT_THAT(files_there(), ElementsAre("a.gz", "b.gz.part"));
}

TEST_F(FetchDataset, GoesOnWhereADownloadBrokeOff) {
  server_.serve("/data/b.gz", http_answer_of_length(bodies_[1].size(), bodies_[1].substr(0, 1000)));
  EXPECT_THROW(fetch(), UnavailableError);
  HttpAnswer parts = http_answer("200 OK", bodies_[1]);
  parts.body = bodies_[1];
  server_.serve("/data/b.gz", parts);
  fetch();
  EXPECT_EQ(server_.requests()[2], "/data/b.gz bytes=1000-");
  EXPECT_EQ(read_file(file(1)), bodies_[1]);
  EXPECT_THAT(files_there(), ElementsAre("a.gz", "b.gz", "c.gz", "d.gz"));
}

TEST_F(FetchDataset, StartsAnewWhereTheRestDoesNotFit) {
  HttpAnswer parts = http_answer("200 OK", bodies_[1]);
  parts.body = bodies_[1];
  server_.serve("/data/b.gz", parts);
  for (const std::size_t size : {std::size_t{40}, bodies_[1].size()}) {
    write_file(file(1).string() + ".part", std::string(size, '?'));
    fs::remove(file(1));
    fetch();
    EXPECT_EQ(read_file(file(1)), bodies_[1]);
  }
  EXPECT_THAT(server_.requests(), ElementsAre("/data/a.gz", "/data/b.gz bytes=40-", "/data/b.gz",
                                              "/data/c.gz", "/data/d.gz", "/data/b.gz"));
  server_.serve("/data/c.gz", http_answer("416 Range Not Satisfiable", ""));
  write_file(file(2).string() + ".part", "some");
  fs::remove(file(2));
  EXPECT_THROW(fetch(), UnavailableError);
  EXPECT_THAT(server_.requests(), testing::Contains("/data/c.gz"));
  EXPECT_FALSE(fs::exists(file(2).string() + ".part"));
}

TEST_F(FetchDataset, UnpacksAnArchive) {
  const std::string tar = tar_member("Kit/Set/", "", '5') +
                          tar_member("Kit/Set/One/a.jpg", "picture") +
                          tar_member("Kit/Set/b.txt", std::string(513, 'b')) +
                          tar_member("Kit/Other/c", "c") + std::string(1024, '\0');
  const std::string sum = sha256_of(tar);
  entry_.files = {{.name = "set.tar", .print = {tar.size(), sum}}};
  entry_.unpacks_to = "Kit/Set";
  server_.serve("/data/set.tar", http_answer("200 OK", tar));
  const fs::path set = directory_.path() / "small" / "Kit" / "Set";
  write_file(set.string() + ".part/left", "by a killed run");
  fetch();
  EXPECT_EQ(read_file(set / "One" / "a.jpg"), "picture");
  EXPECT_EQ(read_file(set / "b.txt"), std::string(513, 'b'));
  EXPECT_FALSE(fs::exists(set / "left"));
  EXPECT_THAT(files_there(), ElementsAre("Kit", "set.tar"));
  EXPECT_FALSE(fs::exists(set.parent_path() / "Other"));

  write_file(set / "mine", "kept");
  fetch();
  EXPECT_TRUE(fs::exists(set / "mine"));
  fs::remove_all(set);
  fetch();
  EXPECT_EQ(read_file(set / "One" / "a.jpg"), "picture");
  EXPECT_THAT(server_.requests(), SizeIs(1));
}

TEST_F(FetchDataset, RefusesOtherSizesThanPublished) {
  server_.serve("/data/b.gz", http_answer("200 OK", bodies_[1].substr(0, 1000)));
  EXPECT_THAT([&] { fetch(); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr(url(1)), HasSubstr("expected 3017 bytes, found 1000"))));
  server_.serve("/data/b.gz", http_answer("200 OK", bodies_[1] + "more"));
  EXPECT_THAT([&] { fetch(); },
              ThrowsMessage<ConfigError>(HasSubstr("expected 3017 bytes, found at least")));
  EXPECT_THAT(files_there(), ElementsAre("a.gz"));
}

TEST_F(FetchDataset, RefusesACorruptedFileAndKeepsTheOldOne) {
  std::string damaged = bodies_[1];
  damaged[2000] = '!';
  server_.serve("/data/b.gz", http_answer("200 OK", damaged));
  write_file(file(1), "old");
  EXPECT_THAT([&] { fetch(); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr(url(1)), HasSubstr(sums_[1]), HasSubstr(sha256_of(damaged)))));
  EXPECT_EQ(read_file(file(1)), "old");
  EXPECT_THAT(files_there(), ElementsAre("a.gz", "b.gz"));
}

TEST_F(FetchDataset, FollowsRedirectsToHttpOnly) {
  server_.serve("/data/b.gz", http_answer("302 Found", "", "Location: /elsewhere\r\n"));
  server_.serve("/elsewhere", http_answer("200 OK", bodies_[1]));
  fetch();
  EXPECT_EQ(read_file(file(1)), bodies_[1]);

  for (const char* target : {"file:///etc/hostname", "ftp://127.0.0.1:1/c.gz"}) {
    server_.serve("/data/c.gz",
                  http_answer("302 Found", "", "Location: " + std::string(target) + "\r\n"));
    EXPECT_THAT([&] { fetch(true); },
                ThrowsMessage<UnavailableError>(AllOf(HasSubstr(url(2)), HasSubstr("disabled"))));
  }
  server_.serve("/data/c.gz", http_answer("302 Found", "", "Location: " + url(2) + "\r\n"));
  EXPECT_THAT([&] { fetch(true); },
              ThrowsMessage<UnavailableError>(AllOf(HasSubstr(url(2)), HasSubstr("redirects"))));
  FetchOptions local = options(true);
  local.base_url = "file://" + directory_.path().string();
  EXPECT_THAT([&] { fetch_files(entry_, local); },
              ThrowsMessage<UnavailableError>(HasSubstr("disabled")));
}

TEST_F(FetchDataset, GivesUpOnASilentServer) {
  HttpAnswer silent = http_answer_of_length(bodies_[0].size(), "x");
  silent.hold = true;
  server_.serve("/data/a.gz", silent);
  EXPECT_THAT([&] { fetch(); }, ThrowsMessage<UnavailableError>(HasSubstr(url(0))));
  EXPECT_THAT(files_there(), ElementsAre("a.gz.part"));
}

TEST_F(FetchDataset, NamesAServerThatIsNotThere) {
  FetchOptions nobody = options();
  nobody.base_url = "http://127.0.0.1:1/";  // tcpmux: no server listens
  EXPECT_THAT([&] { fetch_files(entry_, nobody); },
              ThrowsMessage<UnavailableError>(HasSubstr("http://127.0.0.1:1/a.gz")));
}

TEST_F(FetchDataset, TakesOverWhatAKilledRunLeft) {
  write_file(file(1).string() + ".part", std::string(100000, '?'));
  fetch();
  EXPECT_THAT(files_there(), ElementsAre("a.gz", "b.gz", "c.gz", "d.gz"));
  EXPECT_EQ(read_file(file(1)), bodies_[1]);
}

TEST_F(FetchDataset, DoesNotDisturbAnotherDownload) {
  const std::string part = file(0).string() + ".part";
  write_file(part, "of the other");
  const int other = ::open(part.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  EXPECT_THAT([&] { fetch(); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr(part), HasSubstr("another process"))));
  EXPECT_EQ(read_file(part), "of the other");
  close(other);
  fetch();
  EXPECT_EQ(read_file(file(0)), bodies_[0]);
}

TEST_F(FetchDataset, LeavesNothingWhenTheCallerStopsIt) {
  FetchOptions stopped = options();
  stopped.progress = [](const std::string& line) {
    if (line.find("b.gz") != std::string::npos) throw std::runtime_error("stop");
  };
  EXPECT_THROW(fetch_files(entry_, stopped), std::runtime_error);
  EXPECT_THAT(files_there(), ElementsAre("a.gz"));
}

TEST_F(FetchDataset, NamesADirectoryThatCannotBeMade) {
  write_file(directory_.path() / "file", "");
  FetchOptions blocked = options();
  blocked.directory = (directory_.path() / "file").string();
  EXPECT_THAT([&] { fetch_files(entry_, blocked); },
              ThrowsMessage<ConfigError>(HasSubstr("cannot create " + blocked.directory)));
  blocked.directory = "";
  EXPECT_THAT([&] { fetch_files(entry_, blocked); },
              ThrowsMessage<ConfigError>(HasSubstr("--data-dir")));
}

TEST_F(FetchDataset, IsInspectedFileByFile) {
  fetch();
  write_file(file(1), "wrong");
  fs::remove(file(2));
  fs::remove(file(3));
  const std::vector<FileState> states = inspect_files(entry_, directory_.path().string());
  ASSERT_THAT(states, SizeIs(4));
  EXPECT_TRUE(states[0].present && states[0].correct);
  EXPECT_EQ(states[0].bytes, 17U);
  EXPECT_EQ(states[0].path, file(0).string());
  EXPECT_TRUE(states[1].present && !states[1].correct);
  EXPECT_EQ(states[1].bytes, 5U);
  EXPECT_TRUE(!states[2].present && !states[2].correct);
  EXPECT_EQ(states[2].name, "c.gz");
  EXPECT_FALSE(states[3].present);
}

TEST(Catalog, KnowsTheRealFiles) {
  for (const std::string name : {"mnist", "fashion-mnist"}) {
    const auto directory = real_data_directory(name);
    if (!directory) GTEST_SKIP() << "no " << name << " in " << DDPBENCH_TEST_DATA_DIRECTORY;
    for (const FileState& state : inspect_files(find_in_catalog(name), *directory)) {
      EXPECT_TRUE(state.correct) << state.path;
    }
  }
}

TEST_F(FetchDataset, FetchesTheRealMnist) {
  const auto real = real_data_directory("mnist");
  if (!real) GTEST_SKIP() << "no MNIST in " << DDPBENCH_TEST_DATA_DIRECTORY;
  for (const FileState& state : inspect_files(find_in_catalog("mnist"), *real)) {
    server_.serve("/data/" + state.name, http_answer("200 OK", read_file(state.path)));
  }
  fetch_files(find_in_catalog("mnist"), options());
  EXPECT_EQ(open_and_decode(directory_.path()), open_and_decode(*real));
}

// FIPS 180-2, appendix B.1, and the empty message.
TEST(Sha256, AgreesWithTheStandard) {
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(DataDirectory, IsTheCacheOfTheUser) {
  EXPECT_EQ(default_data_directory("/cache", "/home/u"), "/cache/ddpbench");
  EXPECT_EQ(default_data_directory(nullptr, "/home/u"), "/home/u/.cache/ddpbench");
  EXPECT_EQ(default_data_directory("", "/home/u"), "/home/u/.cache/ddpbench");
  EXPECT_EQ(default_data_directory("relative", "/home/u"), "/home/u/.cache/ddpbench");
  EXPECT_EQ(default_data_directory(nullptr, nullptr), "");
}

}  // namespace
}  // namespace ddpbench::data
