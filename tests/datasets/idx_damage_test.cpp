// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Damaged IDX files: each is refused with its name and place, none crashes, and none gives data.
#include <gmock/gmock.h>

#include <functional>

#include "base/error.h"
#include "base/random.h"
#include "tests/datasets/test_files.h"

namespace ddpbench::data {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;

struct Damage {
  std::string name;
  std::size_t file = 0;                            // 0, 2: images; 1, 3: labels
  std::function<void(std::string& bytes)> change;  // changes the unpacked contents
  std::string message;                             // part of the error's message
  // Behind gzip, lengths show only while unpacking: this is the message then; empty: the same.
  std::string packed_message = "";
};

std::vector<Damage> damages() {
  const auto number = [](std::size_t offset, std::uint32_t value) {
    return [=](std::string& bytes) { bytes.replace(offset, 4, big_endian(value)); };
  };
  const auto length = [](std::ptrdiff_t change) {
    return [=](std::string& bytes) {
      bytes.resize(static_cast<std::size_t>(std::ssize(bytes) + change), 1);
    };
  };
  return {
      {"LabelsMagicInImages", 0, number(0, 2049),
       "offset 0: expected IDX images (3 dimensions of unsigned bytes), found IDX of "
       "1 dimension of unsigned bytes"},
      {"ImagesMagicInLabels", 1, number(0, 2051),
       "offset 0: expected IDX labels (1 dimension of unsigned bytes), found IDX of "
       "3 dimensions of unsigned bytes"},
      {"MagicOfFloats", 2, number(0, 0x0d03), "found IDX of 3 dimensions of 32-bit floats"},
      {"MagicOfIntegers", 1, number(0, 0x0c01), "found IDX of 1 dimension of 32-bit integers"},
      {"Empty", 3, [](std::string& bytes) { bytes.clear(); },
       "offset 0: expected a header of 8 bytes, found the end"},
      {"HalfAHeader", 0, [](std::string& bytes) { bytes.resize(10); },
       "offset 10: expected a header of 16 bytes, found the end"},
      {"NoImages", 0, number(4, 0), "offset 4: expected a count of at least 1, found 0"},
      {"NoLabels", 3, number(4, 0), "offset 4: expected a count of at least 1, found 0"},
      {"OneImageMorePromised", 0, number(4, 6), "truncated", "offset 4: expected 6 labels"},
      {"OneImageLessPromised", 0, number(4, 4), "offset 4: expected 3152 bytes",
       "offset 4: expected 4 labels"},
      {"HugeCount", 2, number(4, 0xffffffff), "4294967295 images"},
      {"ZeroHeight", 0, number(8, 0), "offset 8: expected images of 28 x 28, found 0 x 28"},
      {"HugeWidth", 0, number(12, 0xffffffff),
       "offset 8: expected images of 28 x 28, found 28 x 4294967295"},
      {"OtherShape", 0,
       [](std::string& bytes) { bytes.replace(8, 8, big_endian(14) + big_endian(56)); },
       "offset 8: expected images of 28 x 28, found 14 x 56"},
      {"OneByteShort", 2, length(-1), "truncated"},
      {"OneByteMore", 2, length(1), "offset 4: expected 2368 bytes",
       "expected the end of the file, found more bytes"},
      {"OneLabelShort", 1, length(-1), "truncated"},
      {"OneLabelMore", 1, length(1), "offset 4: expected 13 bytes",
       "expected the end of the file, found more bytes"},
      {"FewerLabelsThanImages", 1,
       [](std::string& bytes) {
         bytes.replace(4, 4, big_endian(4));
         bytes.pop_back();
       },
       "offset 4: expected 5 labels, as many as there are images in"},
  };
}

// Files of other kinds under these names.
std::vector<Damage> other_files() {
  const auto content = [](const char* text) { return [=](std::string& bytes) { bytes = text; }; };
  return {
      {"OtherMagic", 1, [](std::string& bytes) { bytes[0] = 1; }, "found no IDX file"},
      {"WebPage", 0, content("\n<!DOCTYPE html>\n<html><body>Not Found</body></html>"),
       "a web page (HTML or XML); download the file again"},
      {"LfsPointer", 2, content("version https://git-lfs.github.com/spec/v1\noid sha256:74295e\n"),
       "a Git LFS pointer; `git lfs pull` gets the file"},
      {"PackedOnceMore", 1, [](std::string& bytes) { bytes = gzip(gzip(bytes)); },
       "found within gzip a gzip file; unpack it"},
  };
}

class DamagedIdx : public testing::TestWithParam<Damage> {
 protected:
  void expect_refusal(bool packed) {
    SmallMnist mnist;
    GetParam().change(mnist.contents[GetParam().file]);
    mnist.write(directory_.path(), packed);
    const std::string message = error_of_decoding(directory_.path());
    const bool same = !packed || GetParam().packed_message.empty();
    EXPECT_THAT(message, HasSubstr(same ? GetParam().message : GetParam().packed_message));
    EXPECT_THAT(message,
                HasSubstr((directory_.path() / "mnist" / mnist.names[GetParam().file]).string()));
  }

  TemporaryDirectory directory_;
};

TEST_P(DamagedIdx, IsRefusedWhenPlain) { expect_refusal(false); }

TEST_P(DamagedIdx, IsRefusedWhenGzip) { expect_refusal(true); }

INSTANTIATE_TEST_SUITE_P(Every, DamagedIdx, testing::ValuesIn(damages()),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(Other, DamagedIdx, testing::ValuesIn(other_files()),
                         [](const auto& test) { return test.param.name; });

// A copy of the small data set in which one file at a time is damaged and put right again.
class DamagedFile : public testing::Test {
 protected:
  void start(bool packed) {
    mnist_.write(directory_.path(), packed);
    for (const std::string& name : mnist_.names) {
      paths_.push_back(directory_.path() / "mnist" / (packed ? name + ".gz" : name));
    }
    intact_ = open_and_decode(directory_.path());
  }

  SmallMnist mnist_;
  TemporaryDirectory directory_;
  std::vector<fs::path> paths_;
  std::vector<std::byte> intact_;
};

TEST_F(DamagedFile, IsRefusedWhereverAPlainFileIsCut) {
  start(false);
  for (const fs::path& path : paths_) {
    const std::string whole = read_file(path);
    for (std::size_t size = 0; size < whole.size(); size += size < 32 ? 1 : 97) {
      write_file(path, whole.substr(0, size));
      EXPECT_THAT(error_of_decoding(directory_.path()), HasSubstr(path.string())) << size;
    }
    write_file(path, whole);
  }
}

TEST_F(DamagedFile, IsRefusedWhereverAGzipFileIsCut) {
  start(true);
  for (const fs::path& path : paths_) {
    const std::string whole = read_file(path);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      write_file(path, whole.substr(0, size));
      EXPECT_THAT(error_of_decoding(directory_.path()), HasSubstr(path.string())) << size;
    }
    write_file(path, whole);
  }
}

TEST_F(DamagedFile, IsRefusedWhenAnotherGzipStreamFollows) {
  start(true);
  for (const fs::path& path : paths_) {
    const std::string whole = read_file(path);
    write_file(path, whole + whole);
    EXPECT_THAT(error_of_decoding(directory_.path()), HasSubstr(path.string()));
    write_file(path, whole);
  }
}

TEST_F(DamagedFile, IsRefusedWhenAnyHeaderByteOfAPlainFileChanges) {
  start(false);
  for (std::size_t file = 0; file < paths_.size(); ++file) {
    const std::string whole = read_file(paths_[file]);
    for (std::size_t offset = 0; offset < (file % 2 == 0 ? 16U : 8U); ++offset) {
      for (const int bit : {1, 16, 128}) {
        std::string bytes = whole;
        bytes[offset] = static_cast<char>(bytes[offset] ^ bit);
        write_file(paths_[file], bytes);
        EXPECT_NE(error_of_decoding(directory_.path()), "") << paths_[file] << " " << offset;
      }
    }
    write_file(paths_[file], whole);
  }
}

// A flipped byte in gzip's own header (its time stamp, say) may go unnoticed; then the data are
// intact.
TEST_F(DamagedFile, IsRefusedOrIntactWhenAGzipByteChanges) {
  start(true);
  SplitMix64 random(2051, 0);
  int refused = 0, changed = 0;
  for (const fs::path& path : paths_) {
    const std::string whole = read_file(path);
    for (int i = 0; i < 250; ++i) {
      std::string bytes = whole;
      const auto offset = random.below(static_cast<std::uint32_t>(bytes.size()));
      bytes[offset] = static_cast<char>(bytes[offset] ^ static_cast<int>(1 + random.below(255)));
      if (random.below(8) == 0)
        bytes.resize(random.below(static_cast<std::uint32_t>(bytes.size())));
      write_file(path, bytes);
      try {
        changed += open_and_decode(directory_.path()) == intact_ ? 0 : 1;
      } catch (const ConfigError&) {
        ++refused;
      }
    }
    write_file(path, whole);
  }
  EXPECT_EQ(changed, 0);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace ddpbench::data
