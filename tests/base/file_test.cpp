// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Files that are written whole or not at all (more of it with reports, in
// tests/reports/report_writer_test.cpp), and files that are read.
#include "base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <vector>

#include "base/error.h"

namespace ddpbench {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class File : public ::testing::Test {
 protected:
  File() {
    std::string name = (fs::temp_directory_path() / "ddpbench-file-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
    path_ = (directory_ / "file").string();
  }
  ~File() override { fs::remove_all(directory_); }

  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
  }
  static void put(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  static std::string contents(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  template <typename Call>
  static std::string message(const Call& call) {
    try {
      call();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  fs::path directory_;
  std::string path_;
};

TEST_F(File, DescriptorIsClosedOnce) {
  int number = -1;
  {
    FileDescriptor first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(first);
    FileDescriptor second(std::move(first));
    first = FileDescriptor();
    number = second.get();
    EXPECT_EQ(::fcntl(number, F_GETFD), FD_CLOEXEC);
    FileDescriptor& itself = second;
    second = std::move(itself);
    EXPECT_EQ(second.get(), number);
  }
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
  FileDescriptor given(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  number = given.release();
  EXPECT_FALSE(given);
  EXPECT_EQ(::close(number), 0);
}

TEST_F(File, IsWrittenOfParts) {
  const std::vector<std::span<const std::byte>> parts = {bytes_of("one "), {}, bytes_of("two")};
  write_file(path_, parts);
  EXPECT_EQ(contents(path_), "one two");
  EXPECT_EQ(files(), 1U);
}

TEST_F(File, IsNotMadeInPlaceOfTheNullDevice) {
  check_output_path("/dev/null", false);
  for (const bool force : {false, true}) write_file("/dev/null", "nothing", {.force = force});
  struct stat info {};
  EXPECT_EQ(::stat("/dev/null", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
  EXPECT_FALSE(fs::exists("/dev/null.part"));
}

TEST_F(File, HasNoNameUntilItIsCommitted) {
  {
    NewFile file(path_);
    file.write(bytes_of("half"));
    EXPECT_FALSE(fs::exists(path_));
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(File, IsNotReplacedByOneThatWasBegunBeforeIt) {
  NewFile late(path_);
  late.write(bytes_of("late"));
  put(path_, "meanwhile");
  EXPECT_THAT(message([&] { late.commit(); }),
              AllOf(HasSubstr(path_ + " exists already"), HasSubstr("--force")));
  EXPECT_EQ(contents(path_), "meanwhile");
}

TEST_F(File, IsReplacedWhenForced) {
  put(path_, "old");
  EXPECT_THAT(message([&] { write_file(path_, "new"); }), HasSubstr("exists already"));
  write_file(path_, "new", {.force = true, .durable = false});
  EXPECT_EQ(contents(path_), "new");
  EXPECT_EQ(files(), 1U);
}

TEST_F(File, IsReplacedByOneProcessAtATime) {
  put(path_, "old");
  for (int i = 0; i < 2; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int k = 0; k < 200; ++k) write_file(path_, "of one", {.force = true, .durable = false});
      ::_exit(0);
    }
  }
  for (int i = 0; i < 2; ++i) {
    int status = -1;
    ::wait(&status);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(contents(path_), "of one");
  EXPECT_EQ(files(), 1u);
}

TEST_F(File, TakesOverWhatAKilledWriterLeft) {
  put(path_ + ".part", std::string(1000, '?'));
  write_file(path_, "whole");
  EXPECT_EQ(contents(path_), "whole");
  EXPECT_EQ(files(), 1U);
}

// What another may have put there.
TEST_F(File, IsNotWrittenByAPipeOrAnotherNameOfAFile) {
  const std::string part = path_ + ".part";
  const auto write = [&] { write_file(path_, "text"); };
  ASSERT_EQ(::mkfifo(part.c_str(), 0600), 0);
  EXPECT_THAT(message(write), HasSubstr(part)) << "and no reader is waited for";
  const FileDescriptor reader(::open(part.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_THAT(message(write), HasSubstr("a pipe, or another name of a file"));
  fs::remove(part);
  put(directory_ / "mine", "mine");
  fs::create_hard_link(directory_ / "mine", part);
  EXPECT_THAT(message(write), HasSubstr("a pipe, or another name of a file"));
  EXPECT_EQ(contents(directory_ / "mine"), "mine");
}

TEST_F(File, WithOneWriterRefusesASecond) {
  put(path_ + ".part", "of the other");
  FileDescriptor other(::open((path_ + ".part").c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(other.get(), LOCK_EX), 0);
  EXPECT_THAT(message([&] { write_file(path_, "mine", {.one_writer = true}); }),
              AllOf(HasSubstr(path_ + ".part"), HasSubstr("another process is writing it")));
  EXPECT_EQ(contents(path_ + ".part"), "of the other");
  other.reset();
  write_file(path_, "mine", {.one_writer = true});
  EXPECT_EQ(contents(path_), "mine");
}

TEST_F(File, IsReadWholeAlsoWhenItsSizeIsNotKnownBefore) {
  const std::string text(10000, 'x');
  put(path_, text);
  EXPECT_EQ(read_file(path_, {.most_bytes = text.size()}), text);
  EXPECT_THAT(read_file("/proc/self/stat", {.most_bytes = 4096}), HasSubstr("base_tests"));
}

TEST_F(File, MayBeAStreamWhereThatIsAllowed) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_TRUE(is_stream(path_));
  EXPECT_THAT(message([&] { read_file(path_, {.what = "", .most_bytes = 100}); }),
              HasSubstr("not a regular file"));
  // Both ends, so that neither open() waits.
  const FileDescriptor ends(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  {
    const FileDescriptor writer(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::write(writer.get(), "text", 4), 4);
  }
  const InputFile streams{.what = "", .most_bytes = 3, .streams = true};
  EXPECT_THAT(message([&] { read_file(path_, streams); }), HasSubstr("larger than 3"));
  put(directory_ / "regular", "more");
  EXPECT_FALSE(is_stream((directory_ / "regular").string()));
  EXPECT_EQ(read_file((directory_ / "regular").string(),
                      {.what = "", .most_bytes = 100, .streams = true}),
            "more");
  EXPECT_THAT(message([&] { read_file(directory_.string(), streams); }),
              HasSubstr("not a regular file"));
  EXPECT_THAT(message([&] { read_file("/dev/zero", streams); }), HasSubstr("not a regular file"));
}

TEST_F(File, IsThereOnlyWhereTheSystemFindsIt) {
  put(path_, "text");
  EXPECT_TRUE(is_file(path_));
  EXPECT_FALSE(is_folder(path_));
  EXPECT_FALSE(is_file(directory_));
  EXPECT_TRUE(is_folder(directory_));
  // The system cannot look these up.
  for (const std::string& name :
       {directory_.string() + "/none", std::string(5000, 'x'), path_ + "/x"}) {
    EXPECT_FALSE(is_file(name));
    EXPECT_FALSE(is_folder(name));
  }
}

TEST_F(File, IsNeverMadeUnderTheNameOfStandardOutput) {
  EXPECT_THAT(message([&] { check_output_path("-", true); }), HasSubstr("standard output"));
  EXPECT_TRUE(is_stream("-"));
  EXPECT_EQ(input_name("-"), "standard input");
}

TEST_F(File, ThatCannotBeReadIsNamedWithTheReason) {
  const InputFile report{.what = "report ", .most_bytes = 4};
  const auto refusal = [&](const std::string& path) {
    return message([&] { read_file(path, report); });
  };
  EXPECT_EQ(refusal(path_), "report " + path_ + ": no such file");
  EXPECT_EQ(refusal(directory_), "report " + directory_.string() + ": not a regular file");
  EXPECT_EQ(refusal("/dev/zero"), "report /dev/zero: not a regular file");
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(refusal(path_), "report " + path_ + ": not a regular file");
  ::unlink(path_.c_str());
  put(path_, "12345");
  EXPECT_EQ(refusal(path_), "report " + path_ + ": larger than 4 B");
}

}  // namespace
}  // namespace ddpbench
